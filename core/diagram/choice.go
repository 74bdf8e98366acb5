package diagram

// Question asks which units of a resource a container would get.
type Question struct {
	// Resource may be empty if the node has only one.
	Resource string `json:"resource,omitempty"`
	// Size is how many units are asked for.
	Size int `json:"size"`
	// Must are units that must be included.
	Must []string `json:"must,omitempty"`
	// Available are those that may be chosen: units, or devices with all their units or
	// partitions. Empty means the free ones; with All, all healthy ones, as if none were in
	// use.
	Available []string `json:"available,omitempty"`
	All       bool     `json:"all,omitempty"`
}

// Choice is the answer: which units, why, and instead of which others.
type Choice struct {
	Resource string `json:"resource"`
	Policy   string `json:"policy"`
	Size     int    `json:"size"`
	// Units is the number of units of the resource.
	Units     int      `json:"units"`
	Must      []string `json:"must,omitempty"`
	Available []string `json:"available"`
	// Notes are remarks on the question.
	Notes []string `json:"notes,omitempty"`
	// Missing is how many fewer units are available than are asked for.
	Missing int `json:"missing,omitempty"`
	Chosen  Set `json:"chosen"`
	// RunnerUp is the best other set of that size; missing if there is none.
	RunnerUp *Set `json:"runnerUp,omitempty"`
	// Partial: the time did not suffice to search for the best runner-up.
	Partial bool `json:"partial,omitempty"`
	// Compared are the parts that the policy compares, in this order; the first that differs
	// decides.
	Compared []Compared `json:"compared"`
	// Decides is the name of the part that decides; "ids" if all parts are equal and the
	// order of the IDs decides; missing without a runner-up.
	Decides string `json:"decides,omitempty"`
	// RunnerUpBetter: the runner-up is better than the choice, which is possible if Exact is
	// false.
	RunnerUpBetter bool `json:"runnerUpBetter,omitempty"`
	// Method is how the set was found: enumeration, hierarchy, greedy, or order if there
	// was nothing to choose.
	Method string `json:"method"`
	// Exact: no other set is better.
	Exact bool `json:"exact"`
}

// Set is a set of units.
type Set struct {
	Units []string `json:"units"`
	// Links are the pairs of different devices, by their links, the best first.
	Links []Pairs `json:"links"`
	Left  Left    `json:"left"`
}

// Pairs is the number of pairs of devices with the same kind of link.
type Pairs struct {
	Pairs int `json:"pairs"`
	// Kind is "" for pairs without a link both ways.
	Kind     string `json:"kind,omitempty"`
	Count    int    `json:"count,omitempty"`
	Distance int    `json:"distance,omitempty"`
	Path     string `json:"path,omitempty"`
	Weight   int64  `json:"weight"`
}

// Left is what remains available after a choice.
type Left struct {
	Units int `json:"units"`
}

// Compared is a part of the scores of two sets.
type Compared struct {
	// Part is its name: sumOfLinks, weakestLink, numaNodes ...
	Part string `json:"part"`
	// Better is "more" or "less".
	Better   string `json:"better"`
	Chosen   int64  `json:"chosen"`
	RunnerUp *int64 `json:"runnerUp,omitempty"`
}
