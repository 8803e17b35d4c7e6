// SPDX-License-Identifier: Apache-2.0

package counters_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/counters"
)

var three = []counters.Spec{{Name: "events", Kind: counters.Count}, {Name: "epoch", Kind: counters.Gauge},
	{Name: strings.Repeat("n", counters.NameMax), Kind: counters.Count}}

func formatted(t testing.TB, specs []counters.Spec) []byte {
	t.Helper()
	mem := aligned.Bytes(counters.Size(len(specs)), 8)
	if err := counters.Format(mem, specs); err != nil {
		t.Fatal(err)
	}
	return mem
}

func opened(t testing.TB, mem []byte) *counters.Set {
	t.Helper()
	s, err := counters.Open(mem)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The bytes are those of docs/format/counters.md.
func TestFormatIsTheOneThatIsDrawn(t *testing.T) {
	mem := aligned.Bytes(counters.Size(len(three)), 8)
	for i := range mem {
		mem[i] = 0xEE // whatever was there before is gone
	}
	if err := counters.Format(mem, three); err != nil {
		t.Fatal(err)
	}
	set := opened(t, mem)
	set.At(0).Set(0x0123456789ABCDEF)
	set.At(1).SetFloat(2.5)

	want := make([]byte, 64+3*64)
	copy(want[0:], "\x01\x00\x00\x00TNCD")
	want[8] = 3
	copy(want[64:], "events")
	want[64+48] = 1
	copy(want[64+56:], "\xEF\xCD\xAB\x89\x67\x45\x23\x01")
	copy(want[128:], "epoch")
	want[128+48] = 2
	copy(want[128+56:], "\x00\x00\x00\x00\x00\x00\x04\x40")
	copy(want[192:], strings.Repeat("n", 48))
	want[192+48] = 1
	for i := range want {
		if mem[i] != want[i] {
			t.Errorf("byte %d is %#x, want %#x", i, mem[i], want[i])
		}
	}
}

func TestReadFindsWhatWasSet(t *testing.T) {
	mem := formatted(t, three)
	set := opened(t, mem)
	set.At(0).Set(math.MaxUint64 - 1)
	set.At(0).Add(3) // a count wraps around like any uint64
	set.At(1).SetFloat(math.Inf(1))
	set.At(2).Add(7)

	values, err := counters.Read(mem)
	if err != nil {
		t.Fatal(err)
	}
	want := []counters.Value{
		{Name: "events", Kind: counters.Count, Count: 1},
		{Name: "epoch", Kind: counters.Gauge, Gauge: math.Inf(1)},
		{Name: three[2].Name, Kind: counters.Count, Count: 7},
	}
	if !slices.Equal(values, want) {
		t.Errorf("read %v, want %v", values, want)
	}
	if got := values[0].String() + ", " + values[1].String(); got != "events 1, epoch +Inf" {
		t.Errorf("in words: %s", got)
	}
	events, err := counters.Watch(mem, 0)
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := counters.Watch(mem, 1)
	if err != nil || events.Load() != 1 || !math.IsInf(epoch.LoadFloat(), 1) {
		t.Errorf("watched: %d and %v, %v", events.Load(), epoch.LoadFloat(), err)
	}
	if set.At(0).Set(9); events.Load() != 9 {
		t.Errorf("watched: %d, want 9", events.Load())
	}
	// A second Open continues where the first one was: a writer may be started again.
	opened(t, mem).At(2).Add(1)
	if values, _ := counters.Read(mem); values[2].Count != 8 {
		t.Errorf("after a second Open: %v, want 8", values[2])
	}
}

func TestFormatRefuses(t *testing.T) {
	count := func(names ...string) (specs []counters.Spec) {
		for _, n := range names {
			specs = append(specs, counters.Spec{Name: n, Kind: counters.Count})
		}
		return specs
	}
	for what, c := range map[string]struct {
		specs []counters.Spec
		bytes int
	}{
		"no counters":           {nil, 1024},
		"too little memory":     {count("a", "b"), counters.Size(2) - 1},
		"an empty name":         {count("a", ""), 1024},
		"a name too long":       {count(strings.Repeat("x", counters.NameMax+1)), 1024},
		"a name twice":          {count("a", "b", "a"), 1024},
		"a zero in a name":      {count("a\x00b"), 1024},
		"a name with a newline": {count("a\nb"), 1024},
		"kind 0":                {[]counters.Spec{{Name: "a"}}, 1024},
		"kind 3":                {[]counters.Spec{{Name: "a", Kind: 3}}, 1024},
	} {
		mem := aligned.Bytes(c.bytes, 8)
		if err := counters.Format(mem, c.specs); err == nil {
			t.Errorf("%s: formatted", what)
		}
		if _, err := counters.Read(mem); !errors.Is(err, counters.ErrCorrupt) {
			t.Errorf("%s: what was refused reads as %v, want ErrCorrupt", what, err)
		}
	}
	if err := counters.Format(aligned.Bytes(1024, 8)[4:], count("a")); err == nil {
		t.Error("memory off its alignment was formatted")
	}
}

// Memory that isn't a table, or no longer, is refused by both sides.
func TestCorruptMemory(t *testing.T) {
	refused := func(what string, mem []byte) {
		t.Helper()
		if v, err := counters.Read(mem); !errors.Is(err, counters.ErrCorrupt) {
			t.Errorf("%s: Read gives %v, %v, want ErrCorrupt", what, v, err)
		}
	}
	whole := formatted(t, three)
	for n := range len(whole) {
		cut := aligned.Bytes(len(whole), 8)[:n]
		copy(cut, whole)
		refused(fmt.Sprintf("cut to %d bytes", n), cut)
		if _, err := counters.Open(cut); !errors.Is(err, counters.ErrCorrupt) {
			t.Errorf("cut to %d bytes: Open gives %v, want ErrCorrupt", n, err)
		}
		if _, err := counters.Watch(cut, 0); !errors.Is(err, counters.ErrCorrupt) {
			t.Errorf("cut to %d bytes: Watch gives %v, want ErrCorrupt", n, err)
		}
	}
	for _, i := range []int{-1, len(three)} {
		if _, err := counters.Watch(whole, i); !errors.Is(err, counters.ErrCorrupt) {
			t.Errorf("counter %d: Watch gives %v, want ErrCorrupt", i, err)
		}
	}
	for bit := range 64 {
		mem := formatted(t, three)
		mem[bit/8] ^= 1 << (bit % 8)
		refused(fmt.Sprintf("magic with bit %d flipped", bit), mem)
	}
	for _, n := range []uint32{0, 4, 1 << 26, 1 << 31, math.MaxUint32} {
		mem := formatted(t, three)
		binary.LittleEndian.PutUint32(mem[8:], n)
		refused(fmt.Sprintf("%d counters", n), mem)
	}
	for _, kind := range []byte{0, 3, 255} {
		mem := formatted(t, three)
		mem[64+64+48] = kind
		refused(fmt.Sprintf("kind %d", kind), mem)
	}
	shifted := aligned.Bytes(len(whole)+8, 8)[4:]
	copy(shifted, whole)
	refused("off its alignment", shifted[:len(whole)])

	mem := formatted(t, three)
	copy(mem[64:], "a\x1b[2J\xFF")
	if v, err := counters.Read(mem); err != nil || v[0].Name != "a?[2J?" {
		t.Errorf("a name with control characters reads as %q, %v", v[0].Name, err)
	}
}

// A reader beside a writer sees values that the writer has set, whole, and never one
// that is older than one it has seen.
func TestReaderBesideAWriter(t *testing.T) {
	const last = 200_000
	mem := formatted(t, three[:2])
	set := opened(t, mem)
	go func() {
		for i := range uint64(last + 1) {
			set.At(0).Set(i * 0x1_0000_0001) // both halves move together
			set.At(1).SetFloat(float64(i))
		}
	}()
	var before uint64
	for before < last {
		v, err := counters.Read(mem)
		if err != nil {
			t.Fatal(err)
		}
		if v[0].Count>>32 != v[0].Count&math.MaxUint32 {
			t.Fatalf("torn value %#x", v[0].Count)
		}
		now := v[0].Count >> 32
		if now < before {
			t.Fatalf("went back from %d to %d", before, now)
		}
		before = now
		runtime.Gosched()
	}
}

func TestSettingAllocatesNothing(t *testing.T) {
	set := opened(t, formatted(t, three))
	if n := testing.AllocsPerRun(1000, func() {
		set.At(0).Add(1)
		set.At(1).SetFloat(3)
		set.At(2).Set(5)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever the memory holds, Read and Open give a table within it or ErrCorrupt.
func FuzzRead(f *testing.F) {
	whole := formatted(f, three)
	f.Add(whole)
	f.Add(whole[:100])
	f.Add(make([]byte, 200))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		mem := aligned.Bytes(len(raw), 8)
		copy(mem, raw)
		values, err := counters.Read(mem)
		if err != nil {
			if !errors.Is(err, counters.ErrCorrupt) || values != nil {
				t.Fatalf("%v, %v", values, err)
			}
			return
		}
		if len(values) == 0 || counters.Size(len(values)) > len(mem) {
			t.Fatalf("%d counters in %d bytes", len(values), len(mem))
		}
		set, err := counters.Open(mem)
		if err != nil {
			t.Fatalf("Read found a table, Open %v", err)
		}
		for i, v := range values {
			if len(v.Name) > counters.NameMax ||
				strings.ContainsFunc(v.Name, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("name %q", v.Name)
			}
			set.At(i).Set(uint64(i))
		}
	})
}

// A peer's stray write into a value is gone with the writer's next set, and never adds
// to what the writer counts.
func TestStrayWriteIntoAValue(t *testing.T) {
	mem := formatted(t, three)
	set := opened(t, mem)
	set.At(0).Set(10)
	binary.LittleEndian.PutUint64(mem[64+56:], 1<<60)
	set.At(0).Add(1)
	values, err := counters.Read(mem)
	if err != nil || values[0].Count != 11 {
		t.Errorf("%v, %v, want 11", values[0], err)
	}
}

// A peer writes random words over the whole table while its writer and a reader go on:
// neither panics, and the reader gets a table within the memory or ErrCorrupt.
func TestTableUnderFire(t *testing.T) {
	mem := formatted(t, three)
	set := opened(t, mem)
	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for n := range 20000 {
		binary.LittleEndian.PutUint64(mem[8*rng.IntN(len(mem)/8):], rng.Uint64()>>rng.IntN(64))
		set.At(n % 3).Add(1)
		values, err := counters.Read(mem)
		if err != nil {
			if !errors.Is(err, counters.ErrCorrupt) {
				t.Fatal(err)
			}
			refused++
			if err := counters.Format(mem, three); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if len(values) > 3 {
			t.Fatalf("%d counters in memory for 3", len(values))
		}
	}
	if refused == 0 {
		t.Error("no damage was found: the test does nothing")
	}
}
