// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

const formatVersion = 1

// Names; docs/format/checkpoint.md.
const (
	runName     = "run.json"
	lockName    = "lock"
	pointFolder = "points/"
	doneFolder  = "done/"
	labelFolder = "labels/"
	packFolder  = "packs/"
	ioFolder    = "io/"
)

var folders = []string{doneFolder, ioFolder, labelFolder, packFolder, pointFolder}

// IsFolder reports whether blobs of a Repo lie in the folder of that name, which ends in a slash: what List with an
// empty prefix has to look into. Implementations of Blobs call it.
func IsFolder(name string) bool { return slices.Contains(folders, name) }

// LockName is the name that Blobs may have for their lock, and that no blob of a Repo has.
const LockName = lockName

// Bounds of the files.
const (
	runBytesMax      = 512 << 20
	manifestBytesMax = 16 << 20
	labelBytesMax    = 4 << 10
)

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String is 64 hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) error { return parseHex(d[:], text) }

// ID is 16 bytes: of a run's name, of a trace hash.
type ID [16]byte

// String is 32 hexadecimal digits.
func (i ID) String() string { return hex.EncodeToString(i[:]) }

// MarshalText implements encoding.TextMarshaler.
func (i ID) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *ID) UnmarshalText(text []byte) error { return parseHex(i[:], text) }

// parseHex fills dst from digits, of which there is one form only.
func parseHex(dst, text []byte) error {
	if len(text) == 2*len(dst) && bytes.Equal(text, bytes.ToLower(text)) {
		if _, err := hex.Decode(dst, text); err == nil {
			return nil
		}
	}
	return fmt.Errorf("found %.80q, want %d hexadecimal digits, small ones", text, 2*len(dst))
}

// The line that ends each JSON file: the SHA-256 of all bytes in front of it.
const (
	checkBegin = `  "check": "`
	checkEnd   = "\"\n}\n"
	checkBytes = len(checkBegin) + 2*sha256.Size + len(checkEnd)
)

// encodeJSON writes an object whose field check is zero, and its check.
func encodeJSON(v any) (text []byte, check Digest, err error) {
	text, err = json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, check, fmt.Errorf("checkpoint: %w", err)
	}
	text = append(bytes.TrimSuffix(text, []byte("\n}")), ",\n"...)
	check = sha256.Sum256(text)
	return append(text, checkBegin+check.String()+checkEnd...), check, nil
}

// decodeJSON reads what encodeJSON has written; v has a field check.
func decodeJSON(text []byte, v any) error {
	if len(text) < checkBytes {
		return fmt.Errorf("found %d bytes, want at least %d: the file was cut short", len(text), checkBytes)
	}
	body, last := text[:len(text)-checkBytes], text[len(text)-checkBytes:]
	if want := Digest(sha256.Sum256(body)); string(last) != checkBegin+want.String()+checkEnd {
		return fmt.Errorf("found the end %q, want the line with check %v: the file was cut short or changed", last,
			want)
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return err
	}
	if version.Format != formatVersion {
		return otherVersion(fmt.Sprintf("format %d, want %d", version.Format, formatVersion))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil { // it is as it was written
		return otherVersion("other fields than this version has (" + err.Error() + ")")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("found more behind the object, want its end")
	}
	return nil
}

// otherVersion is what was found in what isn't damaged, and what this version wants there.
type otherVersion string

// Error says what to do.
func (v otherVersion) Error() string {
	return "found " + string(v) + ": it was made by another version, use that one"
}

// OtherVersion reports whether all that an error says of a checkpoint is that another version has made it, and not that
// it is damaged.
func OtherVersion(err error) bool {
	switch e := err.(type) {
	case otherVersion:
		return true
	case interface{ Unwrap() error }:
		return OtherVersion(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if !OtherVersion(err) {
				return false
			}
		}
		return len(e.Unwrap()) > 0
	}
	return false
}

// readJSON reads a JSON file of at most so many bytes.
func readJSON(ctx context.Context, b Blobs, name string, bytesMax int64, v any) error {
	text, err := b.Get(ctx, name, 0, bytesMax+1, nil)
	if err != nil {
		return err
	}
	if int64(len(text)) > bytesMax {
		err = fmt.Errorf("found more than %d bytes, want at most so many", bytesMax)
	} else {
		err = decodeJSON(text, v)
	}
	if err != nil {
		return &DamagedError{Where: b.String(), Name: name, Err: err}
	}
	return nil
}

// atMost is an error about a number above its bound.
func atMost(field string, found, allowed int64) error {
	if found > allowed {
		return fmt.Errorf("%s: found %d, want at most %d", field, found, allowed)
	}
	return nil
}

// within is an error about a number outside its bounds.
func within(field string, found, least, most int64) error {
	if found < least || found > most {
		return fmt.Errorf("%s: found %d, want %d to %d", field, found, least, most)
	}
	return nil
}
