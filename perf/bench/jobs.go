// SPDX-License-Identifier: Apache-2.0

package bench

import "slices"

// Jobs are those of the limits and those of disco.
func Jobs() []Job { return slices.Concat(limitJobs(), engineJobs(), byNameJobs()) }
