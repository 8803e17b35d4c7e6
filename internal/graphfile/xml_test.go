// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
)

// piecesOf is what a file has, as text, with text that stands together joined.
func piecesOf(in io.Reader) (string, error) {
	x := newXMLReader(in)
	var out strings.Builder
	var text []byte
	for {
		kind, err := x.next()
		if err != nil {
			return "", err
		}
		if kind != xmlText && len(text) > 0 {
			fmt.Fprintf(&out, "%q\n", text)
			text = text[:0]
		}
		switch kind {
		case xmlText:
			text = append(text, x.text...)
		case xmlStart:
			fmt.Fprintf(&out, "<%s", x.name)
			for _, a := range x.attrs {
				fmt.Fprintf(&out, " %s=%q", x.tag[a.name[0]:a.name[1]], x.tag[a.value[0]:a.value[1]])
			}
			out.WriteString(">\n")
		case xmlEnd:
			out.WriteString("end\n")
		default:
			return out.String(), nil
		}
	}
}

// libraryPieces is what encoding/xml has.
func libraryPieces(in io.Reader) (string, error) {
	d := xml.NewDecoder(in)
	var out strings.Builder
	var text []byte
	for {
		t, err := d.Token()
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if c, ok := t.(xml.CharData); ok {
			text = append(text, c...)
			continue
		}
		switch t.(type) {
		case xml.StartElement, xml.EndElement, nil:
			if len(text) > 0 {
				fmt.Fprintf(&out, "%q\n", text)
				text = text[:0]
			}
		}
		switch t := t.(type) {
		case xml.StartElement:
			fmt.Fprintf(&out, "<%s", t.Name.Local)
			for _, a := range t.Attr {
				fmt.Fprintf(&out, " %s=%q", a.Name.Local, a.Value)
			}
			out.WriteString(">\n")
		case xml.EndElement:
			out.WriteString("end\n")
		case nil:
			return out.String(), nil
		}
	}
}

// asLibrary compares a text's pieces with those of encoding/xml, also where a byte comes at a time.
func asLibrary(t *testing.T, text []byte) {
	t.Helper()
	want, wrong := libraryPieces(bytes.NewReader(text))
	got, err := piecesOf(bytes.NewReader(text))
	if (err == nil) != (wrong == nil) || got != want {
		t.Fatalf("%q: found %v\n%s\nwant %v\n%s", text, err, got, wrong, want)
	}
	if slow, again := piecesOf(iotest.OneByteReader(bytes.NewReader(text))); slow != got || fmt.Sprint(again) !=
		fmt.Sprint(err) {
		t.Fatalf("%q by bytes: found %v\n%s\nwant %v\n%s", text, again, slow, err, got)
	}
}

// xmlTexts are files, good and bad.
var xmlTexts = []string{
	"", " \n", "<a/>", "<a></a>", "<a>x</a>y", "<a b='c' d=\"e'\"/>", "<a b = 'c'\n/>", "<a b='1'c='2'></a >",
	"<p:a q:b='c'/>", "<a>&lt;&gt;&amp;&apos;&quot;&#65;&#x4a;&#xe9;&#233;</a>", "<a b='&lt;&#10;x&#x4A;'/>",
	"<a>x\r\ny\rz</a>", "<a b='x\r\ny\rz'/>", "<a><![CDATA[<x>&amp;]]]></a>", "<a>]]&gt; ]] ></a>",
	"<a>]]></a>", "<a>]]</a>", "<a><![CDATA[x]]>y<![CDATA[]]></a>",
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?><a/>", "<?xml version='1.0' encoding='latin1'?><a/>",
	"<?xml version='1.1'?><a/>", "<?x y?><a/>", "<?x??><a/>", "<? x?><a/>", "<?x", "<!-- x - y --><a/>",
	"<!-- x -- y --><a/>", "<!-- x ---><a/>", "<!---->", "<!--->",
	"<!DOCTYPE a [<!ENTITY x \"y>\"><!-- > ' -->]><a/>", "<!DOCTYPE a><a>&x;</a>", "<!x '>'><a/>", "<!",
	"<!a<b>", "<![CDAT[x]]>", "<!><a/>", "<!'<!--'<!--'-->><a/>", "<a", "<a b", "<a b=", "<a b='",
	"<a b='<'/>", "<a b/>", "<a b=c/>", "<a/ >", "< a/>", "<a>", "</a>", "<a></b>", "<a></a b>", "<p:a></a>",
	"<a:b:c/>", "<:a/>", "<a:/>", "<a :b='1' c:='2'/>", "<a d:e:f='1'/>", "<1/>", "<-/>", "<a 1='2'/>",
	"<é ö='ü'>ß</é>", "<a×b/>", "<a·b/>", "<a>&</a>", "<a>&x</a>", "<a>&;</a>", "<a>&#;</a>",
	"<a>&#x;</a>", "<a>&#0;</a>", "<a>&#x110000;</a>", "<a>&#xd800;</a>", "<a>&#xffff;</a>", "<a>&#-1;</a>",
	"<a>&#+1;</a>", "<a>&#1_0;</a>", "<a>&lt</a>", "<a>\x01</a>", "<a>\xff</a>", "<a b='\xff'/>",
	"<a>\ufffe</a>", "\ufeff<a/>", "<a>\u0085\u2028</a>", "<\xff/>", "<a></a><b/>", "<a><b><c/></b></a>",
	"<a><b></a></b>", "<a>\xf0\x90\x80\x80</a>", "<a>\xed\xa0\x80</a>",
}

// TestXML compares files, short and longer than what is read at once.
func TestXML(t *testing.T) {
	for _, text := range xmlTexts {
		asLibrary(t, []byte(text))
	}
	for _, part := range []string{"x", "é", "]", "\r\n", "&#233;", "]]&gt;", " ", "<b/>"} {
		long := strings.Repeat(part, 2*bufBytes)
		asLibrary(t, []byte("<a>"+long+"</a>"))
		asLibrary(t, []byte("<a><![CDATA["+long+"]]></a>"))
		asLibrary(t, []byte("<!--"+long+"--><a/>"))
	}
	if _, err := piecesOf(strings.NewReader("<a b='" + strings.Repeat("x", tagMax) + "'/>")); err == nil ||
		!strings.Contains(err.Error(), "a tag of more than") {
		t.Errorf("found %v, want that the tag is too long", err)
	}
	want := errors.New("no more of it")
	if _, err := piecesOf(io.MultiReader(strings.NewReader("<a>x"), iotest.ErrReader(want))); !errors.Is(err, want) {
		t.Errorf("found %v, want %v", err, want)
	}
}

// FuzzXML compares any bytes.
func FuzzXML(f *testing.F) {
	for _, text := range xmlTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < tagMax {
			asLibrary(t, text)
		}
	})
}

// TestGraphAllocations: what a reader allocates grows with nodes, which have names, and not with edges.
func TestGraphAllocations(t *testing.T) {
	const nodes, edges = 100, 10_000
	for name, c := range map[string]struct {
		write func(io.Writer, *Data) error
		read  func(text []byte) (*Data, error)
		most  float64
	}{
		"GraphML": {writeGraphML, func(text []byte) (*Data, error) {
			return parseGraphML("g.graphml", bytes.NewReader(text))
		}, 0.05},
		"GML": {writeGML, func(text []byte) (*Data, error) { return parseGML("g.gml", text) }, 2},
	} {
		var e graph.Edges
		for i := range uint32(edges) {
			e.Source, e.Target = append(e.Source, i%nodes), append(e.Target, i/nodes)
			e.Weight = append(e.Weight, float64(i)*1.1)
		}
		g, err := graph.New(nodes, map[int]graph.Edges{0: e})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := c.write(&b, &Data{Graph: g, Vertices: make([]sqldb.Vertex, nodes)}); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := c.read(b.Bytes())
		runtime.ReadMemStats(&after)
		if err != nil || d.Graph.Edges() != edges {
			t.Fatal(name, err)
		}
		if each := (float64(after.Mallocs-before.Mallocs) - 10*nodes) / edges; each > c.most {
			t.Errorf("%s: %.2f allocations for each edge, want %v at most", name, each, c.most)
		}
	}
}
