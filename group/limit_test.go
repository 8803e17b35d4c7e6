// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimit: of many reports some are passed on, and how many others there were, also where none comes behind them.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got, want []string
		l := &limit{to: func(err error) { got = append(got, err.Error()) }}
		report := func(n int) {
			for i := range n {
				if l.report(errors.New(fmt.Sprint("garbage ", i))); i < linesMost {
					want = append(want, fmt.Sprint("garbage ", i))
				}
			}
		}
		more := func(n int) {
			want = append(want, fmt.Sprint(n, " more connections or offers came to nothing within 10s, and aren't ",
				"listed"))
		}
		report(linesMost)
		time.Sleep(linesTime + 1)
		report(linesMost + 1)
		time.Sleep(linesTime + 1)
		more(1)
		report(1000)
		l.flush()
		more(990)
		l.flush()
		time.Sleep(2 * linesTime)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d lines %q\nwant %d %q", len(got), got, len(want), want)
		}
	})
}
