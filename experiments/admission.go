// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/urfave/cli/v2"
)

// AdmissionFlags are those that bound what is taken; while says when they hold.
func AdmissionFlags(while string) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "max-queue", Value: fleet.MaxPieces, Usage: "nothing more is taken while `N` pieces wait: " +
			"of priority normal 0.85 N, of low 0.7 N; while " + while + ", as the next two"},
		&cli.IntFlag{Name: "max-open", Value: 500, Usage: "`N` experiments of a user that haven't ended"},
		&cli.IntFlag{Name: "max-rate", Value: 50, Usage: "`N` submissions of a user in 10 s"},
	}
}

// CheckAdmission refuses wrong values of AdmissionFlags.
func CheckAdmission(c *app.Call) error {
	for flag, most := range map[string]int{"max-queue": 1 << 30, "max-open": fleet.MaxOpen, "max-rate": fleet.MaxRate} {
		if n := c.Int(flag); n < 1 || n > most {
			return app.Usage("--%s: found %d, want 1 to %d", flag, n, most)
		}
	}
	return nil
}

// AdmissionOf are the bounds that AdmissionFlags say.
func AdmissionOf(c *app.Call) fleet.Admission {
	return fleet.Admission{Queue: c.Int("max-queue"), Open: c.Int("max-open"), Rate: c.Int("max-rate")}
}
