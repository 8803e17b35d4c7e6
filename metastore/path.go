// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Path makes the absolute path of key below root, which is "" or an absolute path itself. A key's names are separated
// by single slashes, with or without one in front; "" and "/" are root itself. Names are refused that some engine
// refuses: empty ones, "." and "..", more than [MaxName] bytes, what isn't UTF-8, control characters and those that
// ZooKeeper has no room for.
func Path(root, key string) (string, error) {
	path := root
	if rest := strings.TrimPrefix(key, "/"); rest != "" {
		for name := range strings.SplitSeq(rest, "/") {
			if why := badName(name); why != "" {
				return "", fmt.Errorf("key %.80q: the name %.80q %s", key, name, why)
			}
		}
		path += "/" + rest
	}
	if path == "" {
		return "/", nil
	}
	if strings.HasPrefix(path+"/", "/zookeeper/") {
		return "", fmt.Errorf("key %q: what is below /zookeeper belongs to ZooKeeper itself; choose another name", key)
	}
	if len(path) > MaxPath {
		return "", fmt.Errorf("key %.80q: %d bytes with chroot and group, at most %d are allowed", key, len(path),
			MaxPath)
	}
	return path, nil
}

// CheckKey refuses what every method of a [Store] of this group refuses before it sends anything: what [Path] refuses,
// the store's own names, and, where the key is to be written or deleted, the group itself.
func CheckKey(group, key string, write bool) error {
	root, err := Path("", group)
	if err != nil {
		return err
	}
	if write && isRoot(key) {
		return errRoot(key)
	}
	_, err = keyPath(strings.TrimSuffix(root, "/"), key)
	return err
}

// isRoot tells whether a key is the group itself.
func isRoot(key string) bool { return key == "" || key == "/" }

// errRoot is the error about writing the group itself.
func errRoot(key string) error {
	return fmt.Errorf("key %q: the group itself can't be written or deleted: name a key in it", key)
}

// keyPath is Path for what isn't the store's own.
func keyPath(root, key string) (string, error) {
	if rest := strings.TrimPrefix(key, "/"); rest == identityName || strings.HasPrefix(rest, identityName+"/") {
		return "", fmt.Errorf("key %q: %s is the store's own: choose another name", key, identityName)
	}
	return Path(root, key)
}

// badName says what is wrong with one name, or nothing.
func badName(name string) string {
	switch {
	case name == "":
		return "is empty: write one slash between two names and none at the end"
	case name == "." || name == "..":
		return "is refused: a key can't point out of its group"
	case len(name) > MaxName:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxName)
	case !utf8.ValidString(name):
		return "is no UTF-8"
	}
	for _, r := range name {
		if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return fmt.Sprintf("has the character %U, which is refused", r)
		}
	}
	return ""
}
