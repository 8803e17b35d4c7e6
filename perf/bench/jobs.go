// SPDX-License-Identifier: Apache-2.0

package bench

import "slices"

// Jobs are those of the limits, those of disco, and those of further commands.
func Jobs(more ...Command) []Job {
	all := slices.Concat(limitJobs(), engineJobs(), byNameJobs())
	for _, c := range more {
		all = append(all, c.Jobs...)
	}
	return all
}
