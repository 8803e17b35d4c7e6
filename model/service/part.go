// SPDX-License-Identifier: Apache-2.0

package service

import "github.com/disco-sim/disco/model/measure"

// part is what one box has to say after a run, or after what there was of it.
// Boxes may have come to different times when a run was interrupted: each closes
// its own account at End.
type part struct {
	End       float64        `json:"end"`      // simulated seconds
	Received  int64          `json:"received"` // requests that came in; at the generator: that were made
	Passed    int64          `json:"passed"`   // requests that went on, or ended here
	Present   int64          `json:"present"`  // requests in the box
	Generator *generatorPart `json:"generator,omitempty"`
	Server    *serverPart    `json:"server,omitempty"`
	Collector *collectorPart `json:"collector,omitempty"`
	Edges     []edgePart     `json:"edges,omitempty"` // in the order of the file
	Audit     *audit         `json:"audit,omitempty"` // checked build only
}

type generatorPart struct {
	Made    int64   `json:"made"`
	Windows int64   `json:"windows"`
	UserSum float64 `json:"user_sum"` // of the active users over the windows
}

// serverPart has one number a level, in the order of the level constants.
type serverPart struct {
	Area       [levelCount]float64 `json:"area"`
	Peak       [levelCount]int64   `json:"peak"`
	Samples    int64               `json:"samples"`
	Sum        [levelCount]float64 `json:"sum"`
	Top        [levelCount]int64   `json:"top"`
	Residence  float64             `json:"residence"`
	ByEndpoint []int64             `json:"by_endpoint"`
}

type edgePart struct {
	Sent      int64     `json:"sent"`
	Dropped   int64     `json:"dropped"`
	Transit   int64     `json:"transit"`
	Area      float64   `json:"area"`
	Peak      int64     `json:"peak"`
	Samples   int64     `json:"samples"`
	TickSum   int64     `json:"tick_sum"`
	TickPeak  int64     `json:"tick_peak"`
	SentIn    []int64   `json:"sent_in,omitempty"`    // by span
	PassedIn  []int64   `json:"passed_in,omitempty"`  // by span
	TransitIn []float64 `json:"transit_in,omitempty"` // by span, seconds
}

type collectorPart struct {
	Spans []spanPart `json:"spans"`
}

// spanPart is what ended in one span of the run.
type spanPart struct {
	measure.Moments
	Histogram string `json:"histogram,omitempty"` // HDR V2, compressed, base64
}
