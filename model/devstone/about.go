// SPDX-License-Identifier: Apache-2.0

package devstone

// about says what the fields of a file are for (scenario.Kind.About).
var about = map[string]string{
	"type":   "how components are coupled: LI, HI, HO or HOmod",
	"width":  "components of each coupled model",
	"depth":  "coupled models, one in the other",
	"pulses": "how often the cascade is set off, once a simulated second",
}
