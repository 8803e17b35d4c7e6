// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"zombiezen.com/go/sqlite"
)

// said is an error of SQLite with what was wanted and what to do about it, where that is known: its own texts say only
// what happened.
func (l *lite) said(err error) error {
	if err == nil {
		return nil
	}
	text := ""
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultNotADB:
		text = "found a file of another kind, want a database of SQLite, or a name that no file has"
	case sqlite.ResultCantOpen:
		text = l.unopened()
	case sqlite.ResultFull:
		text = "found a full disk: make room on it, and do this again"
	case sqlite.ResultIOErr:
		text = "the file can't be read or written: is the disk full, or is it larger than files may be (ulimit -f)?"
	case sqlite.ResultReadOnly:
		text = "found a file that may only be read, want one that may be written"
	case sqlite.ResultCorrupt:
		text = "found a damaged file: take a copy of it instead, or import its graphs anew"
	case sqlite.ResultBusy:
		text = fmt.Sprintf("another program has used it for %v: do this again when that one has ended", busyTime)
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", text, err)
}

// unopened says why a file can't be opened.
func (l *lite) unopened() string {
	folder := filepath.Dir(l.file)
	info, err := os.Stat(l.file)
	_, above := os.Stat(folder)
	switch {
	case err == nil && info.IsDir():
		return "found a folder, want a file"
	case errors.Is(above, fs.ErrNotExist):
		return fmt.Sprintf("found no folder %q, want one that is there", folder)
	}
	return "it can't be opened, want a file that this user may read and write, in a folder that this user may write to"
}

// versionOf is the version that a row has, 0 where there is none.
func versionOf(r Row) (int, error) {
	v := r.Int(0)
	if !r.Null(0) && (r.Kind(0) != Int || v < 1) {
		return 0, fmt.Errorf("table version: found %.60q, want a whole number from 1: are these tables of another "+
			"program?", r.Text(0))
	}
	return int(min(v, 1<<30)), nil
}

// shown is a URL without its passwords.
func shown(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	rest, query, asks := strings.Cut(rest, "?")
	at := strings.LastIndex(rest, "@")
	if at < 0 && strings.Contains(query, "@") {
		return scheme + "://***" // of a password with a ? in it, too
	}
	if user, _, secret := strings.Cut(rest[:max(at, 0)], ":"); secret {
		rest = user + ":***" + rest[at:]
	}
	if !asks {
		return scheme + "://" + rest
	}
	settings := strings.Split(query, "&")
	for i, s := range settings {
		if key, _, _ := strings.Cut(s, "="); strings.Contains(strings.ToLower(key), "pass") {
			settings[i] = key + "=***"
		}
	}
	return scheme + "://" + rest + "?" + strings.Join(settings, "&")
}

// checkURL refuses a URL in which a part of a password would be taken for a host's name, which messages have: one that
// isn't written as URLs are.
func checkURL(url string) error {
	_, rest, _ := strings.Cut(url, "://")
	if setting := strings.Index(rest, "="); setting >= 0 {
		rest = rest[:setting]
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 && strings.ContainsAny(rest[:at], "@/?#") {
		return errors.New("found one of @ / ? # in front of an @, want %40 %2F %3F %23 in their place in names and " +
			"passwords")
	}
	return nil
}
