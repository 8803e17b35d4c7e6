// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"

	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
	"github.com/disco-sim/disco/scenario"
)

// sitesMost bounds a door's sites, and wordMost the characters of what is said of one.
const (
	sitesMost = 100
	wordMost  = 1_000
)

// storeAt is where a group is.
type storeAt struct {
	Name, URL, Group            string
	CA, Cert, Key, PasswordFile string
	Machines                    int // it should have so many; 0: any number
}

// sitesFile is a door's file.
type sitesFile struct {
	Home  storeAt
	Sites []storeAt
}

// The fields of a group.
var storeFields = []string{"store", "group", "store-ca", "store-cert", "store-key", "store-password-file"}

// readSites reads a door's file.
func readSites(path string) (*sitesFile, error) {
	text, err := infile.Read(path, infile.Kind{Name: "a file with home and sites", BytesMax: scenario.FileBytesMax})
	if err != nil {
		return nil, fmt.Errorf("--sites: %w", err)
	}
	return parseSites(path, text)
}

// parseSites reads the text of a door's file; name stands for it in messages.
func parseSites(name string, text []byte) (*sitesFile, error) {
	doc, err := scenario.Parse(name, text)
	if err != nil {
		return nil, err
	}
	r := scenario.NewReader(doc)
	whole := r.Whole().Section("home", "sites")
	f := &sitesFile{}
	home := whole.Field("home").Section(storeFields...)
	f.Home = readStore(home, "door")
	sites := whole.Field("sites")
	items := sites.List()
	if n := len(items); sites.IsList() && (n < 1 || n > sitesMost) {
		sites.Refuse(fmt.Sprintf("%d sites", n), fmt.Sprintf("1 to %d", sitesMost), "")
	}
	names, groups := map[string]bool{}, map[string]bool{f.Home.URL + " " + f.Home.Group: true}
	for _, item := range items {
		s := item.Section(append([]string{"name", "machines"}, storeFields...)...)
		at := readStore(s, "disco")
		at.Name = s.Field("name").ID(200)
		if err := groupcall.CheckName(at.Name); at.Name != "" && (err != nil || names[at.Name]) {
			s.Field("name").Refuse(fmt.Sprintf("%q", at.Name), "a name of each site's own, without a slash", "")
		}
		names[at.Name] = true
		if same := at.URL + " " + at.Group; groups[same] {
			s.Field("store").Refuse(fmt.Sprintf("the group %q of %s a second time", at.Group, at.URL),
				"another group for the home and for each site", "say another group, such as group: door for the home")
		} else {
			groups[same] = true
		}
		if s.Field("machines").Present() {
			at.Machines = s.Field("machines").Int(scenario.Between(1, 100_000))
		}
		f.Sites = append(f.Sites, at)
	}
	return f, r.Err()
}

// readStore reads where a group is.
func readStore(s scenario.Section, group string) (at storeAt) {
	at.URL, at.Group = s.Field("store").ID(wordMost), group
	if _, err := dial.Parse(at.URL); at.URL != "" && err != nil {
		s.Field("store").Refuse(fmt.Sprintf("%q", at.URL), "the URL of a store: "+dial.Form, "")
	}
	if v := s.Field("group"); v.Present() {
		at.Group = v.ID(200)
		if groupcall.CheckName(at.Group) != nil || metastore.CheckKey("", at.Group, true) != nil {
			v.Refuse(fmt.Sprintf("%q", at.Group), "a group's name, without a slash", "")
		}
	}
	for name, into := range map[string]*string{"store-ca": &at.CA, "store-cert": &at.Cert, "store-key": &at.Key,
		"store-password-file": &at.PasswordFile} {
		if v := s.Field(name); v.Present() {
			*into = v.ID(wordMost)
		}
	}
	return at
}

// options are those to open it.
func (a *storeAt) options(o metastore.Options) dial.Options {
	return dial.Options{URL: a.URL, CA: a.CA, Cert: a.Cert, Key: a.Key, PasswordFile: a.PasswordFile, Store: o}
}
