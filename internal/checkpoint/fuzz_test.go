// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"testing"
)

// body is a file without its last line, which fuzzers couldn't guess.
func body(text []byte) []byte { return text[:len(text)-checkBytes] }

// FuzzRun: what is taken for a run.json is within its bounds, and is written as it is read.
func FuzzRun(f *testing.F) {
	run := testRun()
	run.Check = Digest{}
	run.Attached, run.Settings, run.From = []Attached{attached(3)}, []Setting{{"k", "v"}}, &From{Epoch: 1}
	text, _, err := encodeJSON(run)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body(text))
	f.Add([]byte("{\n  \"format\": 1,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again Run
		if decodeJSON(withCheck(data), &r) != nil || r.check() != nil {
			return
		}
		r.Check = Digest{}
		text, check, err := encodeJSON(&r)
		if err == nil {
			err = decodeJSON(text, &again)
		}
		if r.Check = check; err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%+v is written as %s, and read as %+v, %v", r, text, again, err)
		}
	})
}

// FuzzManifest: the same of manifests.
func FuzzManifest(f *testing.F) {
	m := testManifest()
	m.Versions = []Version{{"*tiny.node", 1}}
	m.tables = []Chunk{{Kind: table, Raw: rowBytes, Size: 10, At: 40, Pack: m.Packs[0]}}
	text, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body(text))
	f.Fuzz(func(t *testing.T, data []byte) {
		var file manifestFile
		m := &file.Manifest
		if decodeJSON(withCheck(data), &file) != nil || m.fill(&file, m.Point(), testRun()) != nil {
			return
		}
		text, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		var again manifestFile
		if err := decodeJSON(text, &again); err != nil {
			t.Fatal(err)
		}
		err = again.fill(&again, m.Point(), testRun())
		// Of packs with the same digest and size, the last one's index is written.
		if again.Manifest.Check = again.Check; err != nil || !reflect.DeepEqual(*m, again.Manifest) {
			t.Errorf("%+v is written as %s, and read as %+v, %v", m, text, again.Manifest, err)
		}
	})
}

// FuzzRow: what is taken for a row is within its pack and run, and is written as it is read.
func FuzzRow(f *testing.F) {
	packs := []Pack{{Digest{1}, 1000}, {Digest{2}, packBytesMax}}
	f.Add(appendRow(nil, &Chunk{Kind: Nodes, First: 4, Nodes: 4, Raw: 10, Size: 10, At: 32}, 0))
	f.Add(appendRow(nil, &Chunk{Kind: Trace, From: 5, Raw: 10, Size: 10, At: 32}, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseRow(data, packs, 64)
		if err != nil {
			return
		}
		index := 0
		if c.Pack == packs[1] {
			index = 1
		}
		if c.At < packHeadBytes || c.At+c.Size > c.Pack.Bytes || int64(c.First)+int64(c.Nodes) > 64 {
			t.Errorf("%+v is outside its bounds", c)
		}
		if again := appendRow(nil, &c, index); !bytes.Equal(again, data) {
			t.Errorf("%x is written as %x", data, again)
		}
	})
}

// FuzzFrame: what is taken for a chunk's frame gives the bytes with its digest, and takes no more memory than it says.
func FuzzFrame(f *testing.F) {
	var k codec
	for _, text := range []string{"a", "some text, some text, some text", string(make([]byte, 3000))} {
		frame, err := k.encode(nil, []byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame, []byte(text))
	}
	f.Fuzz(func(t *testing.T, frame, text []byte) {
		if len(text) == 0 {
			return
		}
		c := Chunk{Kind: Nodes, Nodes: 1, Raw: int64(len(text)), Size: int64(len(frame)), Digest: sha256.Sum256(text)}
		data, err := k.decode(&c, frame, nil)
		if err == nil && !bytes.Equal(data, text) {
			t.Errorf("a frame gives %x, want %x", data, text)
		}
	})
}
