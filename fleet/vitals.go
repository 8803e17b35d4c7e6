// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// VitalsEvery is how often an agent writes its vitals.
const VitalsEvery = 2 * time.Second

// MaxBehind bounds the name of a machine behind an agent, in bytes.
const MaxBehind = 255

// Bounds of vitals.
const (
	maxFar  = 64   // machines to which the way was measured, of each kind of figure
	maxCut  = 200  // bytes of why one can't be reached
	maxAway = 64   // machines behind an agent that are listed
	maxLack = 4096 // servers
)

// Vitals is how an agent's machine is, in the key fleet/vitals/MEMBER, which lives as long as the agent's session. An
// agent of an older build writes none.
type Vitals struct {
	Number     uint64        `json:"number"`               // rises by one with each writing
	Processors float64       `json:"processors,omitempty"` // share in use, 0 to 1, as the other two
	Memory     float64       `json:"memory,omitempty"`
	Disk       float64       `json:"disk,omitempty"`   // of the folder in which runs write
	Lag        time.Duration `json:"lag_ns,omitempty"` // by which the agent's own loop was late
	// Refuses is why the agent's executor starts nothing now; "": it does.
	Refuses string `json:"refuses,omitempty"`
	// Trial says that it is tried whether the executor starts something: one gang at a time.
	Trial bool `json:"trial,omitempty"`
	// Away are machines behind the agent that are given nothing now, and why; and Lacks is how many of the agent's
	// servers can't be used for that.
	Away  map[string]string `json:"away,omitempty"`
	Lacks int               `json:"lacks,omitempty"`
	// Store is why the agent didn't ask the store in the last minute; "": it did.
	Store string `json:"store,omitempty"`
	// Far is the measured round trip to other members, in seconds. To those that aren't named there is no distance.
	Far map[string]float64 `json:"far,omitempty"`
	// Rates are the bytes a second that the way to some of them carries, at least.
	Rates map[string]float64 `json:"rates,omitempty"`
	// Unreachable are members that can't be reached from here, and why.
	Unreachable map[string]string `json:"unreachable,omitempty"`
}

func (v *Vitals) check() error {
	errs := []error{line("refuses", v.Refuses, MaxReason), number("distances", len(v.Far), 0, maxFar),
		number("rates", len(v.Rates), 0, maxFar),
		number("members that can't be reached", len(v.Unreachable), 0, maxFar),
		line("store", v.Store, MaxReason), number("machines behind it", len(v.Away), 0, maxAway),
		number("servers that it lacks", v.Lacks, 0, maxLack)}
	for name, why := range v.Away {
		errs = append(errs, filled("a machine behind it", name, MaxBehind), line("why it is away", why, MaxReason))
	}
	for what, x := range map[string]float64{"processors": v.Processors, "memory": v.Memory, "disk": v.Disk} {
		if !(x >= 0 && x <= 1) {
			errs = append(errs, fmt.Errorf("%s: found %v, want a share, 0 to 1", what, x))
		}
	}
	if v.Lag < 0 {
		errs = append(errs, fmt.Errorf("lag: found %v, want 0s or more", v.Lag))
	}
	for name, x := range v.Far {
		errs = append(errs, filled("a member that is far", name, maxName))
		if !(x >= 0) || math.IsInf(x, 0) {
			errs = append(errs, fmt.Errorf("far: found %v seconds, want 0 or more", x))
		}
	}
	for name, x := range v.Rates {
		errs = append(errs, filled("a member with a rate", name, maxName))
		if !(x > 0) || math.IsInf(x, 0) {
			errs = append(errs, fmt.Errorf("rates: found %v bytes a second, want more than 0", x))
		}
	}
	for name, why := range v.Unreachable {
		errs = append(errs, filled("a member that can't be reached", name, maxName), line("unreachable", why, maxCut))
	}
	return errors.Join(errs...)
}

func vitalsKey(member string) string { return keyVitals + "/" + member }

// PutVitals writes a member's vitals, which are gone with the session of the client's store.
func (c *Client) PutVitals(ctx context.Context, member string, v Vitals) error {
	if err := errors.Join(checkName(member), v.check()); err != nil {
		return fmt.Errorf("the vitals of %s: %w", member, err)
	}
	key := vitalsKey(member)
	op, err := c.op(metastore.Set, key, v)
	if err != nil {
		return err
	}
	conflict := (*metastore.ConflictError)(nil)
	err = c.store.Commit(ctx, []metastore.Cond{{Path: key, Is: metastore.Exists}}, []metastore.Op{op})
	if errors.As(err, &conflict) {
		_, _, err = c.store.PutEphemeral(ctx, key, v)
	}
	if errors.As(err, &conflict) || errors.Is(err, metastore.ErrUnknown) {
		return nil // an earlier life's, which is about to go, or this one, late: the next ones come soon
	}
	return err
}

// Vitals reads those of all members, and what is wrong with those that can't be read.
func (c *Client) Vitals(ctx context.Context) (all map[string]Vitals, malformed []error, err error) {
	values, err := c.store.Walk(ctx, keyVitals)
	if err != nil {
		return nil, nil, err
	}
	all = map[string]Vitals{}
	for _, value := range values {
		if !value.HasValue() {
			continue
		}
		var v Vitals
		err := value.Decode(&v)
		if err == nil {
			err = v.check()
		}
		if err != nil {
			malformed = append(malformed, &MalformedError{value.Key(), err})
			continue
		}
		all[strings.TrimPrefix(value.Key(), keyVitals+"/")] = v
	}
	return all, malformed, nil
}

// Line makes a text one line without control characters, as Vitals want it.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// HealthReport is what the leader says of machines, in the key fleet/health.
type HealthReport struct {
	Leader   string               `json:"leader"`
	Machines map[string]Condition `json:"machines"`       // those that aren't good
	More     int                  `json:"more,omitempty"` // that aren't listed
}

// maxConditions bounds a HealthReport.
const maxConditions = 1_000

func (r *HealthReport) check() error {
	errs := []error{text("leader", r.Leader, maxName), number("machines", len(r.Machines), 0, maxConditions)}
	for name, c := range r.Machines {
		errs = append(errs, filled("a machine", name, maxName), line("reason", c.Reason, MaxReason))
		if c.Health > Gone {
			errs = append(errs, fmt.Errorf("health: found %d, want one that is known", c.Health))
		}
	}
	return errors.Join(errs...)
}

// equal tells whether two reports say the same of machines.
func (r *HealthReport) equal(other *HealthReport) bool {
	return r.More == other.More && maps.EqualFunc(r.Machines, other.Machines, func(a, b Condition) bool {
		return a.Health == b.Health && a.Reason == b.Reason
	})
}

// ReadHealth reads what the leader says of machines; the zero value where it has never said anything.
func ReadHealth(ctx context.Context, store *metastore.Store) (r HealthReport, err error) {
	if _, err = (&Client{store: store}).get(ctx, keyHealth, &r); err != nil {
		return HealthReport{}, err
	}
	if err = r.check(); err != nil {
		return HealthReport{}, &MalformedError{keyHealth, err}
	}
	return r, nil
}

// FollowHealth calls f, at first too, whenever the leader says something else of machines, until f returns false or the
// watch is stopped.
func FollowHealth(store *metastore.Store, f func() (keep bool)) (*metastore.Watch, error) {
	return store.Follow(keyHealth, func(metastore.Value, string) bool { return f() })
}

// SetHealth writes what the leader says of machines. guards are the leader's.
func (c *Client) SetHealth(ctx context.Context, r HealthReport, guards ...metastore.Cond) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("the health of machines: %w", err)
	}
	op, err := c.op(metastore.Set, keyHealth, r)
	if err != nil {
		return err
	}
	return c.store.Commit(ctx, guards, []metastore.Op{op})
}

// Names are the machines of a report, in their order.
func (r *HealthReport) Names() []string { return slices.Sorted(maps.Keys(r.Machines)) }
