// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/metastore"
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
		Name: "certs", Usage: "makes certificates, by which machines and users are known",
		ArgsUsage: "init DIR | issue --host NAMES --dir DIR --out OUT | issue --user NAME --dir DIR --out OUT",
		Description: "init DIR  makes an authority: ca.pem, and users.pem for users; and their keys ca-key.pem and\n" +
			"          users-key.pem, which only issuing needs\n" +
			"issue     makes OUT for one machine: ca.pem, users.pem, cert.pem and key.pem, as --tls-dir wants\n" +
			"          them, for the names and addresses at which others reach it; or with --user for a user,\n" +
			"          who is known by it at a door (--door-tls) and at a store (--store-cert)\n" +
			"No file is overwritten, and none is readable by other users.",
		Examples: []string{"certs init authority", "certs issue --host h1,10.0.0.1 --dir authority --out h1",
			"certs issue --user ann --dir authority --out ann"},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "host", Usage: "issue: `NAMES` and addresses of the machine, with commas"},
			&cli.StringFlag{Name: "user", Usage: "issue: `NAME` of the user, instead of --host"},
			&cli.StringFlag{Name: "dir", Usage: "issue: `FOLDER` of the authority"},
			&cli.StringFlag{Name: "out", Usage: "issue: `FOLDER` for the files; made where it is missing"},
			&cli.IntFlag{Name: "days", Usage: "`NUMBER` of days for which it is valid; 3650 for init, 365 for issue, " +
				"and no longer than its authority"},
		},
		Run: runCerts,
	}
}

func runCerts(c *app.Call) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		return app.Usage("there is no verb: want init DIR, or issue --host NAMES (or --user NAME) --dir DIR --out OUT")
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
	for _, flag := range []string{"host", "user", "dir", "out"} {
		if c.IsSet(flag) {
			return app.Usage("--%s has no meaning for init", flag)
		}
	}
	if err := certs.Init(args[0], certs.Period(days)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Stdout, "%s: %s holds an authority: keep its %s and %s to yourself\n", c.Program, args[0],
		certs.AuthorityKeyFile, certs.UsersKeyFile)
	return err
}

func issueCerts(c *app.Call, args []string, days int) error {
	if len(args) > 0 {
		return app.Usage("issue: found the argument %q, want none: flags say everything", args[0])
	}
	if c.IsSet("host") && c.IsSet("user") {
		return app.Usage("issue: found --host and --user, want one of them: a machine's certificate, or a user's")
	}
	for _, flag := range []string{"host", "dir", "out"} {
		if c.String(flag) == "" && (flag != "host" || c.String("user") == "") {
			return app.Usage("issue: there is no --%s: want --host NAMES (or --user NAME) --dir DIR --out OUT", flag)
		}
	}
	dir, out, user := c.String("dir"), c.String("out"), c.String("user")
	if user != "" {
		if err := metastore.CheckUser(user); err != nil {
			return app.Usage("issue: --user: %v", err)
		}
		if err := certs.IssueUser(dir, out, user, certs.Period(days)); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.Stdout, "%s: %s is the --door-tls of user %s; doors and stores know it by %s\n",
			c.Program, out, user, filepath.Join(dir, certs.UsersFile))
		return err
	}
	hosts := strings.Split(c.String("host"), ",")
	if err := certs.Issue(dir, out, hosts, certs.Period(days)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Stdout, "%s: %s is the --tls-dir of %s\n", c.Program, out, strings.Join(hosts, ", "))
	return err
}
