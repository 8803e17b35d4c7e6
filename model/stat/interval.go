package stat

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is an estimate and how far the truth may be from it: it lies between Low
// and High with the probability that was asked for. A HalfWidth of 0 beside N < 2
// means that nothing is known about the error.
type Interval struct {
	Mean      float64 `json:"mean"`
	HalfWidth float64 `json:"half_width"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	N         int     `json:"samples"` // independent values behind it
}

// Holds tells whether x lies inside.
func (i Interval) Holds(x float64) bool { return x >= i.Low && x <= i.High }

// Ratio estimates the mean of y over the mean of x from pairs that are independent of
// each other, such as what a queue and its clients have added up in stretches of one
// long run: waiting and arrivals give the mean wait, queue length × time and time give
// the mean queue length. Pairs with x = 0 count like others. The interval is the
// classical one of the ratio estimator: Student's t over the residuals y − r·x
// (Cochran, Sampling techniques, 3rd ed. 1977, chapter 6), so it is exact only in the
// limit of many pairs. level is e.g. 0.95.
//
// Without any x the result is the zero Interval and false.
func Ratio(y, x []float64, level float64) (Interval, bool) {
	if len(y) != len(x) || !(level > 0 && level < 1) {
		panic(fmt.Sprintf("stat: %d values over %d at level %v", len(y), len(x), level))
	}
	var sumY, sumX float64
	for i := range x {
		sumY += y[i]
		sumX += x[i]
	}
	if !(sumX > 0) {
		return Interval{}, false
	}
	r := sumY / sumX
	n := len(x)
	out := Interval{Mean: r, Low: r, High: r, N: n}
	if n < 2 {
		return out, true
	}
	squares := 0.0
	for i := range x {
		d := y[i] - r*x[i]
		squares += d * d
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.5 + level/2)
	out.HalfWidth = t * math.Sqrt(squares/float64(n-1)/float64(n)) / (sumX / float64(n))
	out.Low, out.High = r-out.HalfWidth, r+out.HalfWidth
	return out, true
}

// Mean is the interval of the mean of independent values.
func Mean(values []float64, level float64) (Interval, bool) {
	ones := make([]float64, len(values))
	for i := range ones {
		ones[i] = 1
	}
	return Ratio(values, ones, level)
}
