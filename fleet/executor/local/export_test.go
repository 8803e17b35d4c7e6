// SPDX-License-Identifier: Apache-2.0

package local

// EndMarked is what ends processes.
var EndMarked = endMarked

// MarkedBy are the processes of a job, or of all jobs where it is "".
func MarkedBy(work, job string) (pids []int) {
	all, _ := markedBy(work)
	for _, m := range all {
		if job == "" || m.job == job {
			pids = append(pids, m.pid)
		}
	}
	return pids
}

// The marks.
const (
	WorkVariable = workVariable
	JobVariable  = jobVariable
)
