// SPDX-License-Identifier: Apache-2.0

package bench

// Jobs are the limits and the ways of disco.
func Jobs() []Job { return append(limitJobs(), engineJobs()...) }
