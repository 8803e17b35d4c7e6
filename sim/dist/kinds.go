// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// Parameter is a number that a kind of distribution takes.
type Parameter struct {
	Name  string
	Range scenario.Range
	Whole bool // whole numbers only
}

// Kind is a kind of distribution as it stands in a file: name(first, second), or a mapping with these fields.
type Kind struct {
	Name       string
	Parameters []Parameter
	make       func(a []float64) (l law, fault fault)
}

// fault says what is wrong with parameters that are good one by one; Want is empty where nothing is.
type fault struct {
	index int // of the parameter
	want  string
}

// Ranges of parameters.
var (
	anyRange      = scenario.Between(-numberMax, numberMax)
	positiveRange = scenario.MoreThan(0).AtMost(numberMax)
	shapeRange    = scenario.Between(0.1, 1000)
	betaRange     = scenario.Between(0.1, 10_000)
)

// fields makes parameters: name and range in turn.
func fields(list ...any) (all []Parameter) {
	for i := 0; i < len(list); i += 2 {
		all = append(all, Parameter{Name: list[i].(string), Range: list[i+1].(scenario.Range)})
	}
	return all
}

// standard makes a law of a core whose parameters need no further look.
func standard(of func(a []float64) law) func(a []float64) (law, fault) {
	return func(a []float64) (law, fault) { return of(a), fault{} }
}

// kinds are all that have numbers only, in the order of the documentation.
var kinds = []Kind{
	{"constant", fields("value", anyRange), standard(func(a []float64) law {
		return law{kind: constant, plus: a[0], scale: 1, core: constantCore{}}
	})},
	{"exponential", fields("mean", positiveRange), standard(func(a []float64) law {
		return law{kind: exponential, scale: a[0], core: expCore{}}
	})},
	{"uniform", fields("min", anyRange, "max", anyRange), func(a []float64) (law, fault) {
		return law{kind: uniform, plus: a[0], scale: a[1] - a[0], core: uniformCore{}}, rising(a, 0, 1)
	}},
	{"triangular", fields("min", anyRange, "mode", anyRange, "max", anyRange), makeTriangular},
	{"normal", fields("mean", anyRange, "stddev", positiveRange), standard(func(a []float64) law {
		return law{kind: normal, plus: a[0], scale: a[1], core: normalCore{}}
	})},
	{"log_normal", fields("mean", positiveRange, "cv", scenario.MoreThan(0).AtMost(1000)),
		standard(func(a []float64) law {
			return law{scale: a[0], core: logNormalCore{sigma: math.Sqrt(math.Log1p(a[1] * a[1]))}}
		})},
	{"erlang", []Parameter{{"mean", positiveRange, false}, {"shape", scenario.Between(1, 1e6), true}},
		standard(func(a []float64) law { return law{scale: a[0] / a[1], core: &gammaCore{shape: a[1]}} })},
	{"gamma", fields("mean", positiveRange, "cv", scenario.Between(0.001, 10)), standard(func(a []float64) law {
		return law{scale: a[0] * a[1] * a[1], core: &gammaCore{shape: 1 / (a[1] * a[1])}}
	})},
	{"weibull", fields("scale", positiveRange, "shape", shapeRange), standard(func(a []float64) law {
		return law{scale: a[0], core: weibullCore{exponent: 1 / a[1]}}
	})},
	{"pareto", fields("min", positiveRange, "shape", shapeRange), standard(func(a []float64) law {
		return law{scale: a[0], core: paretoCore{exponent: 1 / a[1]}}
	})},
	{"beta", fields("min", anyRange, "max", anyRange, "alpha", betaRange, "beta", betaRange),
		func(a []float64) (law, fault) {
			return law{plus: a[0], scale: a[1] - a[0], core: betaCore{alpha: a[2], beta: a[3]}}, rising(a, 0, 1)
		}},
	{"hyperexponential", fields("mean", positiveRange, "cv", scenario.Between(1, 1000)),
		standard(func(a []float64) law {
			square := a[1] * a[1]
			return law{scale: a[0], core: &hyperCore{p: (1 + math.Sqrt((square-1)/(square+1))) / 2, deviation: a[1]}}
		})},
	{"poisson", fields("mean", scenario.MoreThan(0).AtMost(1e9)), standard(func(a []float64) law {
		return law{scale: 1, core: poissonCore{mean: a[0]}}
	})},
	{"geometric", fields("probability", scenario.Between(1e-9, 1)), standard(func(a []float64) law {
		return law{scale: 1, core: geometricCore{p: a[0], log: math.Log1p(-a[0])}}
	})},
	{"bernoulli", fields("probability", scenario.Between(0, 1)), standard(makeBernoulli)},
}

// Kinds are the kinds that take numbers only. discrete, empirical and linear take lists or files.
func Kinds() []Kind { return slices.Clone(kinds) }

// kindNames are those of kinds, and of the ones with lists.
func kindNames() (all []string) {
	for _, k := range kinds {
		all = append(all, k.Name)
	}
	return append(all, "discrete", "empirical", "linear")
}

// kindOf finds a kind that takes numbers only.
func kindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}

// form is how a kind is written in one line.
func (k Kind) form() string {
	var all []string
	for _, p := range k.Parameters {
		all = append(all, p.Name)
	}
	return k.Name + "(" + strings.Join(all, ", ") + ")"
}

// of makes the distribution of numbers that are in the ranges of their parameters.
func (k Kind) of(a []float64) (Dist, fault) {
	l, wrong := k.make(a)
	if wrong.want != "" {
		return Dist{}, wrong
	}
	l.low = math.Inf(-1)
	var all []string
	for _, x := range a {
		all = append(all, number(x))
	}
	if l.text = k.Name + "(" + strings.Join(all, ", ") + ")"; l.kind == constant {
		l.text = number(l.plus)
	}
	return Dist{law: &l}, fault{}
}

// must makes the distribution of a constructor's numbers.
func must(name string, a ...float64) Dist {
	k, _ := kindOf(name)
	for i, p := range k.Parameters {
		if !p.Range.Holds(a[i]) {
			panic(refused("dist: %s: found %s %v, want %s", k.form(), p.Name, a[i], p.Range))
		}
	}
	d, wrong := k.of(a)
	if wrong.want != "" {
		panic(refused("dist: %s: found %s %v, want %s", k.form(), k.Parameters[wrong.index].Name, a[wrong.index],
			wrong.want))
	}
	return d
}

// rising wants a[j] above a[i].
func rising(a []float64, i, j int) fault {
	if a[j] > a[i] {
		return fault{}
	}
	return fault{j, "more than " + number(a[i])}
}

func makeTriangular(a []float64) (law, fault) {
	if a[1] < a[0] || a[1] > a[2] {
		return law{}, fault{1, fmt.Sprintf("a number from %s to %s", number(a[0]), number(a[2]))}
	}
	width := a[2] - a[0]
	return law{plus: a[0], scale: width, core: triangularCore{mode: (a[1] - a[0]) / width}}, rising(a, 0, 2)
}

func makeBernoulli(a []float64) law {
	switch p := a[0]; p {
	case 0, 1:
		return law{kind: constant, plus: p, scale: 1, core: constantCore{}}
	default:
		return law{scale: 1, core: &discreteCore{values: []float64{0, 1}, sums: []float64{1 - p, 1}}}
	}
}

// Constant is always x. All constructors panic with numbers that Kinds refuses.
func Constant(x float64) Dist { return must("constant", x) }

// Exponential has the given mean.
func Exponential(mean float64) Dist { return must("exponential", mean) }

// Uniform is from min to max, each as probable.
func Uniform(min, max float64) Dist { return must("uniform", min, max) }

// Triangular has a density that rises from min to mode and falls from there to max.
func Triangular(min, mode, max float64) Dist { return must("triangular", min, mode, max) }

// Normal has no least value: for times, see AtLeast and Truncate.
func Normal(mean, stddev float64) Dist { return must("normal", mean, stddev) }

// LogNormal has this mean and coefficient of variation itself, not its logarithm.
func LogNormal(mean, cv float64) Dist { return must("log_normal", mean, cv) }

// Erlang is the sum of shape exponential numbers, with this mean.
func Erlang(mean float64, shape int) Dist { return must("erlang", mean, float64(shape)) }

// Gamma has this mean and coefficient of variation.
func Gamma(mean, cv float64) Dist { return must("gamma", mean, cv) }

// Weibull has 1 − 1/e of its numbers below scale.
func Weibull(scale, shape float64) Dist { return must("weibull", scale, shape) }

// Pareto is above x with probability (min/x)^shape.
func Pareto(min, shape float64) Dist { return must("pareto", min, shape) }

// Beta is on the interval from min to max.
func Beta(min, max, alpha, beta float64) Dist { return must("beta", min, max, alpha, beta) }

// Hyperexponential is one of two exponential numbers, which make up the same share of the mean; cv >= 1.
func Hyperexponential(mean, cv float64) Dist { return must("hyperexponential", mean, cv) }

// Poisson counts events with this mean: 0, 1, 2 …
func Poisson(mean float64) Dist { return must("poisson", mean) }

// Geometric counts trials up to the first success: 1, 2, 3 …
func Geometric(probability float64) Dist { return must("geometric", probability) }

// Bernoulli is 1 with this probability, and else 0.
func Bernoulli(probability float64) Dist { return must("bernoulli", probability) }
