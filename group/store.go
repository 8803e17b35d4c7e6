// SPDX-License-Identifier: Apache-2.0

package group

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/metastore"
	"github.com/urfave/cli/v2"
)

func storeCommand() app.Command {
	return app.Command{
		Name: "store", Usage: "looks into a group's store, and mends it",
		ArgsUsage: "get|put|list|tree|watch|rm|queue|roles KEY [VALUE]",
		Description: "get KEY         shows a value\n" +
			"put KEY VALUE   writes one: JSON, or text that isn't JSON; - or nothing is standard input\n" +
			"list [KEY]      shows the names right below a key\n" +
			"tree [KEY]      shows everything below a key\n" +
			"watch KEY       shows a value, and again whenever it changes, until Ctrl-C\n" +
			"rm KEY          deletes a key, with -r also everything below it\n" +
			"queue KEY       shows the items of a queue; --push VALUE appends one, --pop takes the first\n" +
			"roles           shows who may do what; --grant and --revoke change it\n" +
			"A key that begins with - stands behind --.",
		Examples: []string{"store get models/one", "store put models/one 3 --create", "store list models",
			"store tree --json", "store watch models/one", "store rm models -r", "store queue jobs --push first",
			"store queue jobs --pop --wait 10s",
			"store roles --grant ann=submit --grant machines=operate --passwords users"},
		Flags: slices.Concat(groupcall.Flags(), roleFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "write JSON"},
			&cli.BoolFlag{Name: "create", Usage: "put: only where there is no value yet"},
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "rm: what lies below the key, too"},
			&cli.StringFlag{Name: "push", Usage: "queue: append `VALUE`"},
			&cli.BoolFlag{Name: "pop", Usage: "queue: take the first item, and show it"},
			&cli.DurationFlag{Name: "wait", Usage: "queue --pop: wait up to `TIME` for an item"}}),
		Run: runStore,
	}
}

// verb is one of the store's commands.
type verb struct {
	name     string
	min, max int // arguments besides the verb
	flags    []string
	writes   bool
	run      func(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error
}

var verbs = []verb{
	{"get", 1, 1, []string{"json"}, false, get},
	{"put", 1, 2, []string{"create"}, true, put},
	{"list", 0, 1, []string{"json"}, false, list},
	{"tree", 0, 1, []string{"json"}, false, tree},
	{"watch", 1, 1, []string{"json"}, false, watch},
	{"rm", 1, 1, []string{"recursive"}, true, remove},
	{"queue", 1, 1, []string{"json", "push", "pop", "wait"}, true, queue},
	{"roles", 0, 0, []string{"json", "grant", "revoke", "passwords", "tokens", "certificates", "for-doors"}, true,
		rolesVerb},
}

func runStore(c *app.Call) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		return app.Usage("there is no verb: want get, put, list, tree, watch, rm or queue, and a KEY; or roles")
	}
	for _, v := range verbs {
		if v.name != args[0] {
			continue
		}
		if n := len(args) - 1; n < v.min || n > v.max {
			return app.Usage("%s: found %d arguments behind it, want %s", v.name, n, wanted(v.min, v.max))
		}
		for _, flag := range []string{"json", "create", "recursive", "push", "pop", "wait", "grant", "revoke",
			"passwords", "tokens", "certificates", "for-doors"} {
			if c.IsSet(flag) && !strings.Contains(" "+strings.Join(v.flags, " ")+" ", " "+flag+" ") {
				return app.Usage("--%s has no meaning for %s", flag, v.name)
			}
		}
		return runVerb(c, v, args[1:])
	}
	return app.Usage("there is no verb %q: want get, put, list, tree, watch, rm, queue or roles", args[0])
}

func runVerb(c *app.Call, v verb, args []string) error {
	group, err := groupcall.Group(c)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if err := metastore.CheckKey(group, args[0], v.writes); err != nil {
			return app.Usage("%s: %v", v.name, err)
		}
		args = append([]string{strings.TrimPrefix(args[0], "/")}, args[1:]...) // as keys are shown everywhere
	}
	switch wait := c.Duration("wait"); {
	case c.IsSet("push") && c.Bool("pop") || c.IsSet("wait") && !c.Bool("pop"):
		return app.Usage("%s: give --push VALUE, or --pop and perhaps --wait TIME", v.name)
	case wait < 0:
		return app.Usage("%s: --wait: found %v, want at least 0s", v.name, wait)
	}
	if args, err = valueArgument(c, v, args); err != nil {
		return err
	}
	// Who waits for an item may be there before the first one is.
	a := groupcall.Access{Makes: v.name == "put" || c.IsSet("push") || c.IsSet("wait") || c.IsSet("grant")}
	return groupcall.WithStore(c, a, func(ctx context.Context, s *metastore.Store) error {
		return v.run(ctx, c, s, args)
	})
}

func wanted(least, most int) string {
	switch {
	case least == most:
		return fmt.Sprintf("%d", most)
	default:
		return fmt.Sprintf("%d or %d", least, most)
	}
}

// key is the optional argument.
func key(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// shown is a value for JSON output.
type shown struct {
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"` // null in a directory
	Directory bool            `json:"directory,omitempty"`
	Ephemeral bool            `json:"ephemeral,omitempty"`
	Gone      bool            `json:"gone,omitempty"` // there is no such key (any more)
	Malformed string          `json:"malformed,omitempty"`
}

func show(v metastore.Value) shown {
	s := shown{Key: v.Key(), Directory: v.Exists() && !v.HasValue(), Ephemeral: v.Ephemeral, Gone: !v.Exists()}
	if v.HasValue() {
		var err error
		if s.Value, err = v.JSON(); err != nil {
			s.Malformed = err.Error()
		}
	}
	return s
}

// text is a value on one line.
func (s shown) text() string {
	switch {
	case s.Malformed != "":
		return "(malformed: " + s.Malformed + ")"
	case s.Directory:
		return "(directory)"
	}
	return string(s.Value)
}

func get(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	v, err := s.Get(ctx, args[0])
	if errors.Is(err, metastore.ErrNoNode) || err == nil && !v.Exists() {
		return fmt.Errorf("there is no key %q", args[0])
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, show(v), false)
	}
	if !v.HasValue() {
		return fmt.Errorf("%q is a directory: `store list %s` shows what is in it", args[0], cmp.Or(args[0], "/"))
	}
	fmt.Fprintln(c.Stdout, show(v).text())
	return nil
}

func put(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	value, err := parseValue(args[1])
	if err != nil {
		return err
	}
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	if !c.Bool("create") {
		return s.Put(ctx, args[0], value)
	}
	return s.Update(ctx, args[0], func(old metastore.Value) (any, error) {
		if old.HasValue() {
			return nil, errors.New("it has a value already: leave --create out to overwrite it")
		}
		return value, nil
	})
}

// valueArgument completes put's arguments by a value from standard input, and checks that of put and --push. It is
// called before signals are caught, so that one ends the reading.
func valueArgument(c *app.Call, v verb, args []string) ([]string, error) {
	text, what := c.String("push"), "--push"
	if v.name == "put" {
		if what = "the value"; len(args) == 1 || args[1] == "-" {
			what = "standard input"
			all, err := infile.All(c.Stdin, what, infile.Kind{Name: "a value", BytesMax: metastore.MaxValue})
			if err != nil {
				return nil, app.Usage("put: %v", err)
			}
			args = []string{args[0], strings.TrimSuffix(string(all), "\n")}
		}
		text = args[1]
	}
	if _, err := parseValue(text); err != nil {
		return nil, app.Usage("%s: %s: %v", v.name, what, err)
	}
	return args, nil
}

// parseValue takes what is JSON for that, and everything else for text. It refuses what no store takes.
func parseValue(text string) (value any, err error) {
	if value = text; json.Valid([]byte(text)) {
		value = json.RawMessage(text)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("found bytes that are no UTF-8, want JSON or text")
	}
	raw, err := metastore.JSON.Encode(value)
	if err == nil && len(raw) > metastore.MaxEncoded {
		err = fmt.Errorf("found %d bytes in JSON, want at most %d", len(raw), metastore.MaxEncoded)
	}
	return value, err
}

func list(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	names, err := s.Members(ctx, key(args))
	if errors.Is(err, metastore.ErrNoNode) {
		return fmt.Errorf("there is no key %q", key(args))
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, append([]string{}, names...), false)
	}
	for _, name := range names {
		fmt.Fprintln(c.Stdout, name)
	}
	return nil
}

func tree(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	values, err := s.Walk(ctx, key(args))
	if err != nil {
		return err
	}
	if len(values) == 0 && key(args) != "" {
		return fmt.Errorf("there is no key %q", key(args))
	}
	all := []shown{}
	for _, v := range values {
		all = append(all, show(v))
	}
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, all, false)
	}
	for _, v := range all {
		mark := ""
		if v.Ephemeral {
			mark = " (ephemeral)"
		}
		fmt.Fprintf(c.Stdout, "%s = %s%s\n", v.Key, v.text(), mark)
	}
	return nil
}

func watch(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	var failed error
	w, err := s.Follow(args[0], func(v metastore.Value, key string) bool {
		now := show(v)
		now.Key = cmp.Or(key, "/")
		switch {
		case c.Bool("json"):
			failed = groupcall.WriteJSON(c.Stdout, now, true)
		case now.Gone:
			_, failed = fmt.Fprintf(c.Stdout, "%s isn't there\n", now.Key)
		default:
			_, failed = fmt.Fprintf(c.Stdout, "%s = %s\n", now.Key, now.text())
		}
		return failed == nil
	})
	if err != nil {
		return err
	}
	return follow(ctx, c, s, func() {}, func(ctx context.Context) error {
		select {
		case <-w.Done():
			return failed
		case <-ctx.Done():
			w.Stop()
			<-w.Done()
			return context.Cause(ctx)
		}
	})
}

func remove(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	there, err := s.Contains(ctx, args[0])
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("there is no key %q", args[0])
	}
	if c.Bool("recursive") {
		return s.DeleteTree(ctx, args[0])
	}
	names, err := s.Members(ctx, args[0])
	if err != nil && !errors.Is(err, metastore.ErrNoNode) {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("there is something below %q (%q, %d in all): -r deletes that, too", args[0], names[0],
			len(names))
	}
	return s.Delete(ctx, args[0])
}

func queue(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	q, err := s.Queue(args[0])
	if err != nil {
		return err
	}
	limited, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	switch {
	case c.IsSet("push"):
		value, err := parseValue(c.String("push"))
		if err != nil {
			return err
		}
		name, err := q.Enqueue(limited, value)
		if err == nil {
			_, err = fmt.Fprintln(c.Stdout, name)
		}
		return err
	case c.Bool("pop"):
		return pop(ctx, c, q, c.Duration("wait"))
	}
	return items(limited, c, s, args[0])
}

// pop takes the first item of a queue, and shows it before it is gone for good: twice rather than never.
func pop(ctx context.Context, c *app.Call, q *metastore.Queue, wait time.Duration) error {
	item, err := take(ctx, c, q)
	if errors.Is(err, metastore.ErrEmpty) && wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if item, err = q.Dequeue(waiting); err != nil && waiting.Err() != nil && ctx.Err() == nil {
			item, err = take(ctx, c, q) // is there none, or was the store out of reach?
		}
	}
	if errors.Is(err, metastore.ErrEmpty) {
		return fmt.Errorf("%w (waited %v)", err, wait)
	}
	if err != nil {
		return err
	}
	v := show(item.Value)
	if c.Bool("json") {
		err = groupcall.WriteJSON(c.Stdout, v, false)
	} else {
		_, err = fmt.Fprintln(c.Stdout, v.text())
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), c.Duration("store-timeout"))
	defer stop()
	if err != nil {
		return errors.Join(err, item.Release(late))
	}
	return item.Consume(late, nil)
}

// take takes a free item, if there is one, as soon as the store answers.
func take(ctx context.Context, c *app.Call, q *metastore.Queue) (*metastore.Item, error) {
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return q.TryDequeue(ctx)
}

// items shows the items of a queue, and which of them are held.
func items(ctx context.Context, c *app.Call, s *metastore.Store, key string) error {
	held, err := s.Members(ctx, key+"/claims")
	if err != nil && !errors.Is(err, metastore.ErrNoNode) {
		return err
	}
	values, err := s.Walk(ctx, key+"/items")
	if err != nil {
		return err
	}
	type item struct {
		Name      string          `json:"name"`
		Held      bool            `json:"held"`
		Value     json.RawMessage `json:"value"`
		Malformed string          `json:"malformed,omitempty"`
	}
	all := []item{}
	for _, v := range values {
		name := v.Key()[strings.LastIndexByte(v.Key(), '/')+1:]
		if !v.HasValue() {
			continue
		}
		there := show(v)
		i := item{Name: name, Held: slices.Contains(held, name), Value: there.Value, Malformed: there.Malformed}
		all = append(all, i)
		if !c.Bool("json") {
			mark := ""
			if i.Held {
				mark = " (held)"
			}
			fmt.Fprintf(c.Stdout, "%s = %s%s\n", name, there.text(), mark)
		}
	}
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, all, false)
	}
	return nil
}
