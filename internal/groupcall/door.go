// SPDX-License-Identifier: Apache-2.0

package groupcall

import (
	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet/doorway"
	"github.com/urfave/cli/v2"
)

// DoorFlags are those of commands for experiments: of a group, or of a door.
func DoorFlags() []cli.Flag {
	flags := append(Flags(), &cli.StringFlag{Name: "door", Usage: "`HOST:PORT` of a door to several groups, instead " +
		"of --store"})
	return append(append(flags, DoorSecurityFlags()...), &cli.StringFlag{Name: "token-file",
		Usage: "`FILE` with the token by which the door knows this user"})
}

// DoorSecurityFlags are those by which a door, and who reaches it, know each other.
func DoorSecurityFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "door-tls", Usage: "`FOLDER` that `certs issue` made for this machine or user; with " +
			"--token-file its ca.pem is enough"},
		&cli.BoolFlag{Name: "insecure", Count: new(int),
			Usage: "reach the door without certificates, on loopback addresses; given twice, anywhere"}}
}

// DoorSecurity is what these flags say.
func DoorSecurity(c *app.Call) doorway.Security {
	return doorway.Security{Folder: c.String("door-tls"), Insecure: c.Count("insecure"),
		TokenFile: c.String("token-file"), Tokens: c.Bool("tokens")}
}

// doorSecurity is that of who reaches a door.
func doorSecurity(c *app.Call) doorway.Security {
	s := DoorSecurity(c)
	s.Tokens = false
	return s
}

// withoutDoor refuses flags that are about a door where none is named.
func withoutDoor(c *app.Call) error {
	for _, flag := range []string{"door-tls", "token-file"} {
		if c.IsSet(flag) {
			return app.Usage("--%s has no meaning without --door", flag)
		}
	}
	return nil
}
