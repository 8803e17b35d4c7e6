// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/certs"
	"github.com/urfave/cli/v2"
)

// Days for which certificates are valid.
const (
	authorityDays = 3650
	machineDays   = 365
	daysMax       = 36500
)

func certsCommand() app.Command {
	return app.Command{
		Name: "certs", Usage: "makes certificates, by which machines know each other",
		ArgsUsage: "init DIR | issue --host NAMES --dir DIR --out OUT",
		Description: "init DIR  makes an authority: ca.pem, and ca-key.pem, which only issuing needs\n" +
			"issue     makes OUT for one machine: ca.pem, cert.pem and key.pem, as --tls-dir wants them,\n" +
			"          for the names and addresses at which others reach it\n" +
			"No file is overwritten, and none is readable by other users.",
		Examples: []string{"certs init authority", "certs issue --host h1,10.0.0.1 --dir authority --out h1"},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "host", Usage: "issue: `NAMES` and addresses of the machine, with commas"},
			&cli.StringFlag{Name: "dir", Usage: "issue: `FOLDER` of the authority"},
			&cli.StringFlag{Name: "out", Usage: "issue: `FOLDER` for the machine's files; made where it is missing"},
			&cli.IntFlag{Name: "days", Usage: "`NUMBER` of days for which it is valid; 3650 for init, 365 for issue, " +
				"and no longer than its authority"},
		},
		Run: runCerts,
	}
}

func runCerts(c *app.Call) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		return app.Usage("there is no verb: want init DIR, or issue --host NAMES --dir DIR --out OUT")
	}
	verb, args := args[0], args[1:]
	do, days := initCerts, authorityDays
	switch verb {
	case "init":
	case "issue":
		do, days = issueCerts, machineDays
	default:
		return app.Usage("there is no verb %q: want init or issue", verb)
	}
	if c.IsSet("days") {
		if days = c.Int("days"); days < 1 || days > daysMax {
			return app.Usage("--days: found %d, want 1 to %d", days, daysMax)
		}
	}
	err := do(c, args, days)
	var mistake *certs.Error
	if errors.As(err, &mistake) {
		return app.Usage("%s: %v", verb, err)
	}
	return err
}

func initCerts(c *app.Call, args []string, days int) error {
	if len(args) != 1 {
		return app.Usage("init: found %d arguments behind it, want the folder of the new authority", len(args))
	}
	for _, flag := range []string{"host", "dir", "out"} {
		if c.IsSet(flag) {
			return app.Usage("--%s has no meaning for init", flag)
		}
	}
	if err := certs.Init(args[0], certs.Period(days)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Stdout, "%s: %s holds an authority: keep its %s to yourself\n", c.Program, args[0],
		certs.AuthorityKeyFile)
	return err
}

func issueCerts(c *app.Call, args []string, days int) error {
	if len(args) > 0 {
		return app.Usage("issue: found the argument %q, want none: flags say everything", args[0])
	}
	for _, flag := range []string{"host", "dir", "out"} {
		if c.String(flag) == "" {
			return app.Usage("issue: there is no --%s: want --host NAMES --dir DIR --out OUT", flag)
		}
	}
	hosts, out := strings.Split(c.String("host"), ","), c.String("out")
	if err := certs.Issue(c.String("dir"), out, hosts, certs.Period(days)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Stdout, "%s: %s is the --tls-dir of %s\n", c.Program, out, strings.Join(hosts, ", "))
	return err
}
