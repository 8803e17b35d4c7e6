package bench

import (
	"os"
	"testing"
)

// The other sides of pairs are processes of this test binary.
func TestMain(m *testing.M) {
	if IsWorker() {
		os.Exit(ServeWorker(append(Jobs(), testJobs()...)))
	}
	os.Exit(m.Run())
}
