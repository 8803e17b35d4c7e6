// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// storeClients are what only a program that reaches a store links: etcd's client alone is as large as disco-run.
var storeClients = []string{"go.etcd.io/", "google.golang.org/", "go.uber.org/", "github.com/go-zookeeper/",
	"github.com/minio/", module + "/internal/checkpoint/s3",
	module + "/metastore/etcd", module + "/metastore/zk", module + "/metastore/dial"}

// linked lists the packages that a program with these packages in it holds.
func linked(t *testing.T, patterns ...string) (packages []string) {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-deps"}, patterns...)...)
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list -deps %v: %v", patterns, err)
	}
	return strings.Fields(string(out))
}

// below lists the packages that are below one of the roots.
func below(packages []string, roots ...string) (found []string) {
	for _, p := range packages {
		if slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(p+"/", root) }) {
			found = append(found, p)
		}
	}
	return found
}

// TestNoStoreInSimulations: who simulates links nothing of a group's store, and who uses the store's interface links no
// engine that he hasn't chosen. They, and disco-run, are no larger for their commands of a group than by the package
// that executes its programs.
func TestNoStoreInSimulations(t *testing.T) {
	if found := below(linked(t, "./cmd/disco-group"), storeClients...); len(found) < 10 {
		t.Fatalf("disco-group, which reaches stores, links only %v: this test finds nothing", found)
	}
	simulation := linked(t, "./sim/...", "./model/...", "./node", "./scenario", "./app", "./internal/launch")
	own := []string{module + "/metastore/", module + "/cluster/", module + "/group/", module + "/graph/sqldb/",
		module + "/graph/frame/", module + "/internal/graphcmd/"}
	for _, p := range below(simulation, append(own, storeClients...)...) {
		if p != module+"/group/beside" {
			t.Errorf("simulations link %s", p)
		}
	}
	for _, p := range below(linked(t, "./cluster", "./metastore", "./metastore/mem"), storeClients...) {
		t.Errorf("the store's interface links %s", p)
	}
	for _, p := range linked(t, "./cmd/disco-run") {
		if !slices.Contains(simulation, p) && p != module+"/cmd/disco-run" && p != module+"/examples" {
			t.Errorf("disco-run links %s, which no simulation needs", p)
		}
	}
}
