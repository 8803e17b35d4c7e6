// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"
)

const licenceLine = "// SPDX-License-Identifier: Apache-2.0\n\n"

// Every file says under which licence it may be used, because files are copied one at a time.
func TestLicenceLines(t *testing.T) {
	for _, f := range files(t) {
		if !strings.HasPrefix(string(f.text), licenceLine) {
			t.Errorf("%s:1: the file must begin with %q and an empty line", f.path, strings.TrimSpace(licenceLine))
		}
	}
}
