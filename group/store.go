// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/metastore"
	"github.com/urfave/cli/v2"
)

func storeCommand() app.Command {
	return app.Command{
		Name: "store", Usage: "looks into a group's store, and mends it",
		ArgsUsage: "get|put|list|tree|watch|rm|queue KEY [VALUE]",
		Description: "get KEY         shows a value\n" +
			"put KEY VALUE   writes one: JSON, or text that isn't JSON; - or nothing is standard input\n" +
			"list [KEY]      shows the names right below a key\n" +
			"tree [KEY]      shows everything below a key\n" +
			"watch KEY       shows a value, and again whenever it changes, until the key is deleted\n" +
			"rm KEY          deletes a key, with -r also everything below it\n" +
			"queue KEY       shows the items of a queue; --push VALUE appends one, --pop takes the first\n" +
			"A key that begins with - stands behind --.",
		Flags: append(storeFlags(),
			&cli.BoolFlag{Name: "json", Usage: "write JSON"},
			&cli.BoolFlag{Name: "create", Usage: "put: only where there is no value yet"},
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "rm: what lies below the key, too"},
			&cli.StringFlag{Name: "push", Usage: "queue: append `VALUE`"},
			&cli.BoolFlag{Name: "pop", Usage: "queue: take the first item, and show it"},
			&cli.DurationFlag{Name: "wait", Usage: "queue --pop: wait up to `TIME` for an item"}),
		Run: runStore,
	}
}

// verb is one of the store's commands.
type verb struct {
	name     string
	min, max int // arguments besides the verb
	flags    []string
	run      func(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error
}

var verbs = []verb{
	{"get", 1, 1, []string{"json"}, get},
	{"put", 1, 2, []string{"create"}, put},
	{"list", 0, 1, []string{"json"}, list},
	{"tree", 0, 1, []string{"json"}, tree},
	{"watch", 1, 1, []string{"json"}, watch},
	{"rm", 1, 1, []string{"recursive"}, remove},
	{"queue", 1, 1, []string{"json", "push", "pop", "wait"}, queue},
}

func runStore(c *app.Call) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		return app.Usage("there is no verb: want get, put, list, tree, watch, rm or queue, and a KEY")
	}
	for _, v := range verbs {
		if v.name != args[0] {
			continue
		}
		if n := len(args) - 1; n < v.min || n > v.max {
			return app.Usage("%s: found %d arguments behind it, want %s", v.name, n, wanted(v.min, v.max))
		}
		for _, flag := range []string{"json", "create", "recursive", "push", "pop", "wait"} {
			if c.IsSet(flag) && !strings.Contains(" "+strings.Join(v.flags, " ")+" ", " "+flag+" ") {
				return app.Usage("--%s has no meaning for %s", flag, v.name)
			}
		}
		if v.max > 0 && len(args) > 1 {
			if _, err := metastore.Path("", args[1]); err != nil {
				return app.Usage("%v", err)
			}
		}
		return withStore(c, 0, func(ctx context.Context, s *metastore.Store) error {
			return v.run(ctx, c, s,
				args[1:])
		})
	}
	return app.Usage("there is no verb %q: want get, put, list, tree, watch, rm or queue", args[0])
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
	Key       string `json:"key"`
	Value     any    `json:"value"` // null in a directory
	Directory bool   `json:"directory,omitempty"`
	Ephemeral bool   `json:"ephemeral,omitempty"`
	Malformed string `json:"malformed,omitempty"`
}

func show(v metastore.Value) shown {
	s := shown{Key: v.Key(), Directory: !v.HasValue(), Ephemeral: v.Ephemeral}
	if v.HasValue() {
		var err error
		if s.Value, err = v.Any(); err != nil {
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
	line, err := json.Marshal(s.Value)
	if err != nil {
		return fmt.Sprintf("%v", s.Value)
	}
	return string(line)
}

func get(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	ctx, cancel, err := bounded(ctx, c)
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
		return writeJSON(c.Stdout, show(v))
	}
	if !v.HasValue() {
		return fmt.Errorf("%q is a directory: `store list %s` shows what is in it", args[0], args[0])
	}
	fmt.Fprintln(c.Stdout, show(v).text())
	return nil
}

func put(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	text := "-"
	if len(args) == 2 {
		text = args[1]
	}
	if text == "-" {
		all, err := infile.All(c.Stdin, "standard input", infile.Kind{Name: "a value",
			BytesMax: metastore.MaxValue})
		if err != nil {
			return err
		}
		text = strings.TrimSuffix(string(all), "\n")
	}
	value := parseValue(text)
	ctx, cancel, err := bounded(ctx, c)
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

// parseValue takes what is JSON for that, and everything else for text.
func parseValue(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

func list(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	ctx, cancel, err := bounded(ctx, c)
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
		return writeJSON(c.Stdout, append([]string{}, names...))
	}
	for _, name := range names {
		fmt.Fprintln(c.Stdout, name)
	}
	return nil
}

func tree(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	ctx, cancel, err := bounded(ctx, c)
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
		return writeJSON(c.Stdout, all)
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
		there := show(v)
		there.Key = key
		switch {
		case !v.Exists() && c.Bool("json"):
			_, failed = fmt.Fprintf(c.Stdout, "{\"key\":%q,\"gone\":true}\n", key)
		case !v.Exists():
			_, failed = fmt.Fprintf(c.Stdout, "%s isn't there\n", key)
		case c.Bool("json"):
			var line []byte
			if line, failed = json.Marshal(there); failed == nil {
				_, failed = fmt.Fprintf(c.Stdout, "%s\n", line)
			}
		default:
			_, failed = fmt.Fprintf(c.Stdout, "%s = %s\n", key, there.text())
		}
		return failed == nil
	})
	if err != nil {
		return err
	}
	select {
	case <-w.Done():
		return failed
	case <-ctx.Done():
		w.Stop()
		<-w.Done()
		return context.Cause(ctx)
	}
}

func remove(ctx context.Context, c *app.Call, s *metastore.Store, args []string) error {
	ctx, cancel, err := bounded(ctx, c)
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
	if c.IsSet("push") && c.Bool("pop") || c.IsSet("wait") && !c.Bool("pop") {
		return app.Usage("queue: give --push VALUE, or --pop and perhaps --wait TIME")
	}
	q, err := s.Queue(args[0])
	if err != nil {
		return err
	}
	limited, cancel, err := bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	switch {
	case c.IsSet("push"):
		name, err := q.Enqueue(limited, parseValue(c.String("push")))
		if err == nil {
			_, err = fmt.Fprintln(c.Stdout, name)
		}
		return err
	case c.Bool("pop"):
		return pop(ctx, c, q)
	}
	return items(limited, c, s, args[0])
}

// pop takes the first item of a queue, and shows it before it is gone for good: twice rather than never.
func pop(ctx context.Context, c *app.Call, q *metastore.Queue) error {
	wait := c.Duration("wait")
	ctx, cancel := context.WithTimeout(ctx, max(wait, 100*time.Millisecond))
	defer cancel()
	item, err := q.Dequeue(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the queue has no item that is free (waited %v): %w", wait, err)
	}
	if err != nil {
		return err
	}
	v := show(item.Value)
	if c.Bool("json") {
		err = writeJSON(c.Stdout, v)
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
		Name  string `json:"name"`
		Held  bool   `json:"held"`
		Value any    `json:"value"`
	}
	all := []item{}
	for _, v := range values {
		name := v.Key()[strings.LastIndexByte(v.Key(), '/')+1:]
		if !v.HasValue() {
			continue
		}
		i := item{Name: name, Value: show(v).Value}
		for _, h := range held {
			i.Held = i.Held || h == name
		}
		all = append(all, i)
		if !c.Bool("json") {
			mark := ""
			if i.Held {
				mark = " (held)"
			}
			fmt.Fprintf(c.Stdout, "%s = %s%s\n", name, show(v).text(), mark)
		}
	}
	if c.Bool("json") {
		return writeJSON(c.Stdout, all)
	}
	return nil
}
