// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// someSession stands for any.
type someSession struct{}

func (someSession) ID() string            { return "some" }
func (someSession) TTL() time.Duration    { return time.Second }
func (someSession) Lost() <-chan struct{} { return nil }

func TestCheckCommit(t *testing.T) {
	v := []byte("v")
	var many []Op
	for i := range MaxOps {
		many = append(many, Op{Path: fmt.Sprintf("/%d", i), Do: Set, Value: v})
	}
	large := make([]byte, MaxValue+1)
	for _, c := range []struct {
		conds []Cond
		ops   []Op
		want  string // "" is no error
		is    error
	}{
		{nil, many, "", nil},
		{[]Cond{{Path: "/a", Is: Exists}}, many, "101 conditions", ErrTooLarge},
		{[]Cond{{Path: "/a", Is: Exists}, {Path: "/a", Is: Missing}}, nil, "", nil},
		{[]Cond{{Path: "/a"}}, nil, "condition 0", nil},
		{[]Cond{{Path: "a", Is: Exists}}, nil, "begin with a slash", nil},
		{[]Cond{{Path: "/a/..", Is: Exists}}, nil, "out of its group", nil},
		{nil, []Op{{Path: "/a", Value: v}}, "operation 0", nil},
		{nil, []Op{{Path: "/a//b", Do: Delete}}, "is empty", nil},
		{nil, []Op{{Path: "/a", Do: Set}}, "without a byte", nil},
		{nil, []Op{{Path: "/a", Do: Set, Value: large[1:]}}, "", nil},
		{nil, []Op{{Path: "/a", Do: Set, Value: large}}, "1000001 bytes", ErrTooLarge},
		{nil, []Op{{Path: "/a", Do: Set, Value: v, Session: someSession{}}}, "only Create", nil},
		{nil, []Op{{Path: "/a", Do: Set, Value: v}, {Path: "/a", Do: Delete}}, "two operations", nil},
		{nil, []Op{{Path: "/a", Do: DeleteTree}, {Path: "/a/b", Do: Set, Value: v}}, "deletes the tree /a", nil},
		{nil, []Op{{Path: "/a/b", Do: Delete}, {Path: "/", Do: DeleteTree}}, "deletes the tree /", nil},
		{nil, []Op{{Path: "/a", Do: DeleteTree}, {Path: "/ab", Do: Set, Value: v}}, "", nil},
		{nil, []Op{{Path: "/a/b", Do: Set, Value: v}, {Path: "/a", Do: Create, Value: v, Session: someSession{}}},
			"/a/b", ErrEphemeralParent},
	} {
		err := CheckCommit(c.conds, c.ops)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%+v: found %v, want %q, %v", c.conds, err, c.want, c.is)
		}
	}
	if err := CheckAppend("/a", large); !errors.Is(err, ErrTooLarge) {
		t.Errorf("found %v, want ErrTooLarge", err)
	}
	if err := CheckAppend("/a/.", v); err == nil {
		t.Error("a bad directory is appended to")
	}
}
