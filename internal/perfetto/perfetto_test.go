// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/disco-sim/disco/internal/spans"
)

// fields are those of Perfetto's messages that are used, each "message name number type", in a row of their own; a + is
// a list.
const fields = `
Trace packet 1 +TracePacket
TracePacket timestamp 8 uint64
TracePacket trusted_packet_sequence_id 10 uint32
TracePacket track_event 11 TrackEvent
TracePacket interned_data 12 InternedData
TracePacket sequence_flags 13 uint32
TracePacket track_descriptor 60 TrackDescriptor
TrackEvent debug_annotations 4 +DebugAnnotation
TrackEvent type 9 int32
TrackEvent name_iid 10 uint64
TrackEvent track_uuid 11 uint64
TrackEvent name 23 string
TrackEvent counter_value 30 int64
TrackEvent double_counter_value 44 double
DebugAnnotation name_iid 1 uint64
DebugAnnotation uint_value 3 uint64
DebugAnnotation double_value 5 double
DebugAnnotation string_value 6 string
DebugAnnotation name 10 string
InternedData event_names 2 +Name
InternedData debug_annotation_names 3 +Name
Name iid 1 uint64
Name name 2 string
TrackDescriptor uuid 1 uint64
TrackDescriptor name 2 string
TrackDescriptor process 3 ProcessDescriptor
TrackDescriptor parent_uuid 5 uint64
TrackDescriptor counter 8 CounterDescriptor
TrackDescriptor child_ordering 11 int32
TrackDescriptor sibling_order_rank 12 int32
ProcessDescriptor pid 1 int32
ProcessDescriptor process_name 6 string
CounterDescriptor unit_name 6 string
`

// trace decodes a file with a descriptor made of fields.
func trace(t *testing.T, b []byte) protoreflect.Message {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("trace.proto")}
	for line := range strings.Lines(strings.TrimSpace(fields)) {
		var message, name, kind string
		var number int32
		if _, err := fmt.Sscan(line, &message, &name, &number, &kind); err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(file.MessageType, func(m *descriptorpb.DescriptorProto) bool {
			return m.GetName() == message
		})
		if at < 0 {
			at = len(file.MessageType)
			file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{Name: &message})
		}
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number,
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if rest, ok := strings.CutPrefix(kind, "+"); ok {
			f.Label, kind = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(), rest
		}
		if v, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(kind)]; ok {
			f.Type = descriptorpb.FieldDescriptorProto_Type(v).Enum()
		} else {
			f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String("."+kind)
		}
		m := file.MessageType[at]
		m.Field = append(m.Field, f)
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(d.Messages().ByName("Trace"))
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	noUnknown(t, m)
	return m
}

// noUnknown finds bytes that no field is for.
func noUnknown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if b := m.GetUnknown(); len(b) > 0 {
		t.Fatalf("%s has unknown fields: %x", m.Descriptor().Name(), b)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				noUnknown(t, v.List().Get(i).Message())
			}
		default:
			noUnknown(t, v.Message())
		}
		return true
	})
}

// some is a run of two workers of which each was at a few things.
func some(t *testing.T) *Run {
	t.Helper()
	r := &Run{Facts: []Fact{{"scenario", "a.yml"}}}
	for n := range 2 {
		l := spans.NewLines()
		at := int64(1000 * (n + 1))
		span := func(k spans.Kind, arg, length int64) spans.Span {
			at += length
			return spans.Span{Begin: at - length, End: at, Kind: k, Arg: arg, Count: 1}
		}
		err := l.Add(&spans.Report{
			States: []spans.Span{span(spans.Work, 0, 5), span(spans.OnPeer, 2, 7), span(spans.Full, 1, 9),
				{Begin: at, End: at + 50, Count: 3, Nanos: [spans.Sorts]int64{10, 30, 4, 6}}},
			Sleeps: []spans.Span{{Begin: at + 3, End: at + 4, Kind: spans.Parked, Count: 1}},
			Runs:   []spans.Span{{Begin: at, End: at + 60, Kind: spans.Replication, Arg: 4, Count: 1}},
			Samples: []spans.Sample{{At: at, Epoch: 0.5, Events: 100, Pending: 7},
				{At: at + 2_000_000, Epoch: math.Inf(1), Events: 300}},
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Workers = append(r.Workers, Worker{Number: n + 2, First: 2, PID: 77, On: "b", Lines: l})
	}
	return r
}

// slices of a trace, by their track's and worker's names: "name from to, …".
func slicesOf(trace protoreflect.Message) map[string]string {
	packets := trace.Get(trace.Descriptor().Fields().ByName("packet")).List()
	get := func(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
		return m.Get(m.Descriptor().Fields().ByName(name))
	}
	tracks, names, all := map[uint64]string{}, map[[2]uint64]string{}, map[string]string{}
	for i := range packets.Len() {
		p := packets.Get(i).Message()
		sequence := get(p, "trusted_packet_sequence_id").Uint()
		if d := get(p, "track_descriptor").Message(); d.IsValid() {
			name := get(d, "name").String() + get(get(d, "process").Message(), "process_name").String()
			tracks[get(d, "uuid").Uint()] = strings.TrimPrefix(tracks[get(d, "parent_uuid").Uint()]+": "+name, ": ")
		}
		interned := get(get(p, "interned_data").Message(), "event_names").List()
		for k := range interned.Len() {
			n := interned.Get(k).Message()
			names[[2]uint64{sequence, get(n, "iid").Uint()}] = get(n, "name").String()
		}
		e := get(p, "track_event").Message()
		if !e.IsValid() {
			continue
		}
		track, at := tracks[get(e, "track_uuid").Uint()], get(p, "timestamp").Uint()
		switch get(e, "type").Int() {
		case typeBegin:
			all[track] += fmt.Sprintf("%s %d", names[[2]uint64{sequence, get(e, "name_iid").Uint()}], at)
		case typeEnd:
			all[track] += fmt.Sprintf(" %d, ", at)
		case typeCounter:
			v := get(e, "double_counter_value").Float() + float64(get(e, "counter_value").Int())
			all[track] += fmt.Sprintf("%d %v, ", at, v)
		default:
			all[track] += get(e, "name").String()
		}
	}
	return all
}

// What is written says what each worker was at, with Perfetto's field numbers.
func TestWrite(t *testing.T) {
	var b bytes.Buffer
	r := some(t)
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	m := trace(t, b.Bytes())
	got := slicesOf(m)
	for track, want := range map[string]string{
		"about this run": "about this run",
		"worker 2, process 77 on b: what it does": "handling 0 5, blocked on worker 3 5 12, " +
			"waiting for room to worker 2 12 21, mostly blocked 21 71, ",
		"worker 3, process 77 on b: what it does": "handling 1000 1005, blocked on worker 3 1005 1012, " +
			"waiting for room to worker 2 1012 1021, mostly blocked 1021 1071, ",
		"worker 2, process 77 on b: asleep":         "asleep 24 25, ",
		"worker 2, process 77 on b: replication":    "replication 21 81, ",
		"worker 2, process 77 on b: simulated time": "21 0.5, ",
		"worker 2, process 77 on b: events/s":       "21 100000, ",
		"worker 2, process 77 on b: pending":        "21 7, 2000021 0, ",
	} {
		if got[track] != want {
			t.Errorf("%s: %q, want %q", track, got[track], want)
		}
	}
	if len(got) != 1+2*6 {
		t.Errorf("%d tracks, want %d: %v", len(got), 1+2*6, got)
	}
	text := prototext.Format(m.Interface())
	for _, want := range []string{`"a.yml"`, `"spans in one"`, `"blocked ms"`, "3e-05"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s isn't there", want)
		}
	}
	if of, are := r.Merged(); of != 6 || are != 2 {
		t.Errorf("%d spans are merged into %d, want 6 into 2", of, are)
	}
}

// An error of the file ends the writing.
func TestWriteError(t *testing.T) {
	full := errors.New("full")
	if err := Write(failing{full}, some(t)); !errors.Is(err, full) {
		t.Errorf("%v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// realDecoder counts what Perfetto's own messages, of the Python package "perfetto", make of a file.
const realDecoder = `
import sys
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
def unknown(m):
    n = len(UnknownFieldSet(m))
    for f, v in m.ListFields():
        if f.type == f.TYPE_MESSAGE:
            n += sum(unknown(x) for x in (v if f.is_repeated else [v]))
    return n
t = Trace()
t.ParseFromString(open(sys.argv[1], "rb").read())
kinds = [p.track_event.type for p in t.packet if p.HasField("track_event")]
print(unknown(t), sum(p.HasField("track_descriptor") for p in t.packet), kinds.count(1), kinds.count(2), kinds.count(4))
`

// Perfetto's own programs read it, where they are there: its trace processor, and its messages in Python
// (DISCO_PERFETTO_PYTHON names a Python that has them, else python3).
func TestReal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	var b bytes.Buffer
	if err := Write(&b, some(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("messages", func(t *testing.T) {
		python := os.Getenv("DISCO_PERFETTO_PYTHON")
		if python == "" {
			python = "python3"
		}
		if err := exec.CommandContext(t.Context(), python, "-c", "import perfetto.protos").Run(); err != nil {
			t.Skipf("not checked with Perfetto's own messages: %s has no package perfetto (%v)", python, err)
		}
		out, err := exec.CommandContext(t.Context(), python, "-c", realDecoder, path).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != "0 15 12 12 8" {
			t.Errorf("%v: %s; want 0 unknown fields, 15 descriptors, 12 begins, 12 ends and 8 counters", err, got)
		}
	})
	t.Run("trace processor", func(t *testing.T) {
		processor := ""
		for _, name := range []string{"trace_processor_shell", "trace_processor"} {
			if found, err := exec.LookPath(name); err == nil {
				processor = found
			}
		}
		if processor == "" {
			t.Skip("not checked with Perfetto's trace processor: it isn't in PATH")
		}
		query := filepath.Join(t.TempDir(), "query")
		text := "select count(*), sum(dur) from slice where name = 'handling'"
		if err := os.WriteFile(query, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), processor, "-q", query, path)
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), "2,10") {
			t.Errorf("%v: %s; want 2 slices of 10 ns", err, out)
		}
	})
}
