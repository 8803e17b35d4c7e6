// SPDX-License-Identifier: Apache-2.0

package bench

// Jobs are those of the limits and those of disco.
func Jobs() []Job { return append(limitJobs(), engineJobs()...) }
