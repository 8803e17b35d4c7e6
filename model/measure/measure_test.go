package measure

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestLatencies holds merged and sent sets against sorted numbers.
func TestLatencies(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []float64
	var merged Latencies
	var data []byte
	for range 10 {
		var part Latencies
		for range rnd.IntN(3000) {
			x := rnd.ExpFloat64() * 0.01
			all = append(all, x)
			if err := part.Add(x); err != nil {
				t.Fatal(err)
			}
		}
		data = part.Append(data)
		merged.Merge(&part)
	}
	var sent Latencies
	for rest := data; len(rest) > 0; {
		var err error
		if rest, err = sent.Read(rest); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(sent.Summary(), merged.Summary()) || sent.Count != int64(len(all)) {
		t.Errorf("sent: %+v, merged %+v", sent.Summary(), merged.Summary())
	}
	slices.Sort(all)
	for _, p := range []float64{50, 90, 99, 99.9} {
		want := all[int(math.Ceil(p/100*float64(len(all))))-1]
		if got := merged.Percentile(p); math.Abs(got-want) > 1.1e-3*want {
			t.Errorf("p%v is %v, want %v", p, got, want)
		}
	}
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	if mean := sum / float64(len(all)); math.Abs(merged.Mean-mean) > 1e-12*mean || merged.Min != all[0] || merged.Max != all[len(all)-1] {
		t.Errorf("moments %+v, want the mean %v", merged.Moments, mean)
	}
}

func TestEmpty(t *testing.T) {
	var l Latencies
	data := l.Append([]byte{7})
	var back Latencies
	rest, err := back.Read(data[1:])
	if err != nil || len(rest) != 0 || back.Summary() != nil || back.Percentile(50) != 0 || back.StdDev() != 0 {
		t.Errorf("%v, %v, %+v", rest, err, back)
	}
	if l.Add(math.NaN()) == nil || l.Add(-1) == nil || l.Count != 0 {
		t.Error("a duration that is none was taken")
	}
	if err := l.Add(math.MaxFloat64); err != nil || l.Max != math.MaxFloat64 {
		t.Errorf("the longest duration: %v, %+v", err, l)
	}
}

// TestWrongBytes: whatever the bytes, there is an error or a set that holds together.
func TestWrongBytes(t *testing.T) {
	var l Latencies
	for i := range 50 {
		if err := l.Add(float64(i) / 10); err != nil {
			t.Fatal(err)
		}
	}
	good := l.Append(nil)
	for n := range len(good) {
		if _, err := new(Latencies).Read(good[:n]); err == nil {
			t.Errorf("no error after %d of %d bytes", n, len(good))
		}
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		bad := slices.Clone(good)
		bad[rnd.IntN(len(bad))] = byte(rnd.Uint32())
		var back Latencies
		if _, err := back.Read(bad); err == nil && back.Count > 0 && back.histogram.TotalCount() != back.Count {
			t.Fatalf("%+v", back)
		}
	}
}

func TestInterval(t *testing.T) {
	if Interval95([]float64{1}) != nil {
		t.Error("an interval of one value")
	}
	i := Interval95([]float64{1, 2, 3, 4})
	if math.Abs(i.HalfWidth-2.0542) > 1e-3 || i.Mean != 2.5 || i.Low >= i.High {
		t.Errorf("%+v", i)
	}
}
