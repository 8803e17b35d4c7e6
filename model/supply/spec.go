// SPDX-License-Identifier: Apache-2.0

package supply

import "github.com/disco-sim/disco/sim/dist"

// Spec is a supply network as its file describes it.
type Spec struct {
	Name      string
	Horizon   float64 // simulated seconds
	Warmup    float64 // what happens before is not counted; < Horizon
	Settles   bool    // warmup: auto, which counts all
	Period    float64 // seconds over which orders and demand are added up for their variances
	Products  []string
	Locations []Location
	Notes     []string
	Series    bool // time series are recorded; scenario.Options say it, not the file

	windows int // of each location; 0: no time series are recorded
}

// Location is a place with stocks, or a source that always has everything.
type Location struct {
	ID        string
	Source    bool
	Calendar  *Calendar // when it orders; nil: always
	Points    []Point   // by rising product
	Customers []Customer
	Lines     []Line
	File      []FileDemand // by rising time
}

// Point is the stock of one product at one location: a stock point.
type Point struct {
	Product  int32
	Stage    int32   // supply links between it and the nearest demand; NoStage
	Supplier int32   // location; own production: that of the point itself
	Slot     int32   // index among the supplier's Customers; own production: among its Lines
	Made     bool    // by own production
	Delay    float64 // of its orders on their way
	Most     int64   // units on order at a time; 0: any number
	Stock    *Stock
	Demand   *Demand // from outside; nil: none that isn't in a file
}

// NoStage is the Stage of a stock that no demand reaches.
const NoStage = -1

// Customer is a stock point of another location that orders here.
type Customer struct {
	Location int32
	Point    int32 // index among its Points
	Own      int32 // the point here from which it is supplied; of a source -1
	Lead     dist.Dist
}

// Policy is when and how much a stock orders.
type Policy uint8

// Policies, in the order of their names in files.
const (
	BaseStock    Policy = iota // continuous review, up to UpTo
	ReorderPoint               // continuous review, (r, Q)
	Periodic                   // each Every, up to UpTo or a forecast
	Newsvendor                 // each Every a new Quantity, and what is left is thrown away
)

var policies = []string{"base_stock", "reorder_point", "periodic", "newsvendor"}

// Stock is how stock points are kept.
type Stock struct {
	Policy   Policy
	UpTo     int64
	Reorder  int64 // r
	Quantity int64 // Q
	Every    float64
	Periods  int // of the moving average; 0: UpTo instead
	Cover    float64
	Safety   float64
	Lot      int64 // orders are multiples of it
	Initial  int64
	Lost     bool // what outside demand doesn't find at once is lost
	Costs    Costs
}

// continuous reports whether every demand is followed by a review.
func (s *Stock) continuous() bool { return s.Policy <= ReorderPoint }

// Costs are in any unit of money.
type Costs struct {
	Holding float64 // of a unit on hand, a second
	Backlog float64 // of a unit owed, a second
	Lost    float64 // of a unit of lost demand
	Order   float64 // of an order
	Unit    float64 // of a unit ordered
	Price   float64 // for a unit handed over
	Salvage float64 // for a unit thrown away
}

// Demand is what outside customers ask of a stock point.
type Demand struct {
	Start float64 // the first gap begins here
	Gap   dist.Dist
	Size  dist.Dist
}

// FileDemand is one demand of a file.
type FileDemand struct {
	Time     float64
	Point    int32
	Quantity int64
}

// Line is a production line of one location.
type Line struct {
	Time            dist.Dist // of one lot
	Queue           int64     // most units of a product that are ordered and not made; 0: any number
	Calendar        *Calendar // when it works; nil: always
	Failure, Repair dist.Dist // not set: it doesn't break
}
