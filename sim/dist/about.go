// SPDX-License-Identifier: Apache-2.0

package dist

// About says what the fields of a distribution are for, for scenario.Kind.About.
func About() map[string]string {
	return map[string]string{
		"#distribution.distribution": "kind of distribution",
		"#distribution.value":        "the constant",
		"#distribution.mean":         "mean",
		"#distribution.min":          "least value; what is below is left out",
		"#distribution.max":          "largest value; what is above is left out",
		"#distribution.mode":         "most likely value",
		"#distribution.stddev":       "standard deviation",
		"#distribution.cv":           "standard deviation divided by the mean",
		"#distribution.shape":        "shape of the distribution",
		"#distribution.scale":        "scale of the distribution",
		"#distribution.alpha":        "first shape",
		"#distribution.beta":         "second shape",
		"#distribution.probability":  "probability of success",
		"#distribution.values":       "what is drawn",
		"#distribution.weights":      "how often each is drawn, relative to the others",
		"#distribution.sums":         "probability of at most each value, rising",
		"#distribution.samples":      "values that are drawn equally often",
		"#distribution.file":         "path of a table in CSV with samples",
		"#distribution.column":       "column of the file, from 1",
		"#distribution.times":        "factor",
		"#distribution.plus":         "what is added",
		"#distribution.at_least":     "lower values count as this",
	}
}
