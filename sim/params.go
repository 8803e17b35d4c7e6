// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"reflect"

	"github.com/disco-sim/disco/scenario"
)

// paramPlan is how a struct of parameters is read.
type paramPlan struct{}

func planParams(t reflect.Type) (*paramPlan, error) {
	if t.Kind() != reflect.Struct || t.NumField() > 0 {
		return nil, fmt.Errorf("sim: parameters of type %v: want a struct without fields", t)
	}
	return &paramPlan{}, nil
}

func (p *paramPlan) fields() []string { return nil }

func (p *paramPlan) read(r *scenario.Reader, root scenario.Section, into any) {}
