package bench

// Jobs are the limits and the ways of disco.
func Jobs() []Job { return append(limitJobs(), engineJobs()...) }
