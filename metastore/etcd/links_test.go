// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"os/exec"
	"strings"
	"testing"
)

// Who simulates links no engine's client: only what reaches a store does.
func TestSimulationsLinkNoClient(t *testing.T) {
	list := exec.Command("go", append([]string{"list", "-deps"},
		"./sim/...", "./model/...", "./node", "./scenario", "./app", "./metastore", "./metastore/mem")...)
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "disco/scenario\n") {
		t.Fatal("the list is broken")
	}
	for line := range strings.Lines(string(out)) {
		for _, client := range []string{"go.etcd.io/", "go-zookeeper", "google.golang.org/grpc", "zap"} {
			if strings.Contains(line, client) {
				t.Errorf("links %s", line)
			}
		}
	}
}
