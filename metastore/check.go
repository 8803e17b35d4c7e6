// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"fmt"
	"strings"
)

// CheckCommit refuses what no engine may do, before it is asked: engines call it first in [Backend.Commit]. Errors wrap
// [ErrTooLarge] and [ErrEphemeralParent] where they say that.
func CheckCommit(conds []Cond, ops []Op) error {
	if n := len(conds) + len(ops); n > MaxOps {
		return fmt.Errorf("%w: a commit of %d conditions and operations, at most %d", ErrTooLarge, n, MaxOps)
	}
	for _, c := range conds {
		if c.Is < Exists || c.Is > At {
			return fmt.Errorf("%s: condition %d is unknown", c.Path, c.Is)
		}
		if err := checkPath(c.Path); err != nil {
			return err
		}
	}
	total := 0
	for i, op := range ops {
		if err := checkOp(op); err != nil {
			return err
		}
		if total += len(op.Value); total > MaxValue {
			return fmt.Errorf("%w: a commit with %d bytes of values, at most %d", ErrTooLarge, total, MaxValue)
		}
		for _, other := range ops[:i] {
			if err := checkPair(op, other); err != nil {
				return err
			}
			if err := checkPair(other, op); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckAppend refuses what no engine may append: engines call it first in [Backend.Append].
func CheckAppend(dir string, value []byte) error {
	if err := checkPath(dir); err != nil {
		return err
	}
	return checkValue(dir, value)
}

// checkOp checks one operation by itself.
func checkOp(op Op) error {
	if err := checkPath(op.Path); err != nil {
		return err
	}
	switch op.Do {
	case Create, Set:
		if op.Do == Set && op.Session != nil {
			return fmt.Errorf("%s: only Create makes an ephemeral node, Set keeps one", op.Path)
		}
		return checkValue(op.Path, op.Value)
	case Delete, DeleteTree:
		return nil
	}
	return fmt.Errorf("%s: operation %d is unknown", op.Path, op.Do)
}

// checkPair checks a against b, which may be below it.
func checkPair(a, b Op) error {
	below := strings.HasPrefix(b.Path, strings.TrimSuffix(a.Path, "/")+"/")
	switch {
	case a.Path == b.Path:
		return fmt.Errorf("%s: two operations of one commit", a.Path)
	case below && a.Do == DeleteTree:
		return fmt.Errorf("%s: is changed by a commit that deletes the tree %s", b.Path, a.Path)
	case below && a.Do == Create && a.Session != nil && (b.Do == Create || b.Do == Set):
		return fmt.Errorf("%s: %w", b.Path, ErrEphemeralParent)
	}
	return nil
}

// checkPath holds a path against [Path].
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("path %q: must begin with a slash", path)
	}
	_, err := Path("", path)
	return err
}

// checkValue holds a value against the limits.
func checkValue(path string, value []byte) error {
	switch {
	case len(value) == 0:
		return fmt.Errorf("%s: a value without a byte: the first one says how it is encoded", path)
	case len(value) > MaxValue:
		return fmt.Errorf("%s: %w: a value of %d bytes, at most %d", path, ErrTooLarge, len(value), MaxValue)
	}
	return nil
}
