// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Ref names a simproc of a simulation, wherever it is hosted: disco://CLUSTER/NODE/SIMPROC?rep=REPLICATION. Without
// Simproc it names the whole node, without Replication the only one. Parts are percent-encoded where they have to be;
// ParseRef and String are inverse.
type Ref struct {
	Cluster, Node, Simproc, Replication string
}

// maxRef bounds a reference, in bytes.
const maxRef = 4096

// ParseRef reads a reference. The error says which part is wrong, and what the form is.
func ParseRef(text string) (Ref, error) {
	fail := func(format string, args ...any) (Ref, error) {
		return Ref{},
			fmt.Errorf("reference %.80q: %s; the form is disco://CLUSTER/NODE/SIMPROC?rep=REPLICATION, the last "+
				"two may be missing", text, fmt.Sprintf(format, args...))
	}
	rest, ok := strings.CutPrefix(text, "disco://")
	if !ok || len(text) > maxRef {
		return fail("it doesn't begin with disco://, or has more than %d bytes", maxRef)
	}
	rest, query, asked := strings.Cut(rest, "?")
	var r Ref
	if asked {
		rep, ok := strings.CutPrefix(query, "rep=")
		if !ok {
			return fail("%.40q is no rep=", query)
		}
		value, err := part(rep)
		if err != nil {
			return fail("the replication: %v", err)
		}
		r.Replication = value
	}
	names := strings.Split(rest, "/")
	if len(names) < 2 || len(names) > 3 {
		return fail("it has %d parts, want a cluster, a node and perhaps a simproc", len(names))
	}
	for i, into := range []*string{&r.Cluster, &r.Node, &r.Simproc}[:len(names)] {
		value, err := part(names[i])
		if err != nil {
			return fail("part %d: %v", i+1, err)
		}
		*into = value
	}
	return r, nil
}

// part decodes one part of a reference.
func part(text string) (string, error) {
	value, err := url.PathUnescape(text)
	switch {
	case err != nil:
		return "", err
	case value == "":
		return "", fmt.Errorf("it is empty")
	case !utf8.ValidString(value):
		return "", fmt.Errorf("%q is no UTF-8", value)
	}
	return value, nil
}

// String writes the reference so that ParseRef reads it.
func (r Ref) String() string {
	text := "disco://" + url.PathEscape(r.Cluster) + "/" + url.PathEscape(r.Node)
	if r.Simproc != "" {
		text += "/" + url.PathEscape(r.Simproc)
	}
	if r.Replication != "" {
		text += "?rep=" + url.PathEscape(r.Replication)
	}
	return text
}
