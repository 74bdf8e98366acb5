package listing

import "testing"

// Verifies that a claim is shown once, with each of its containers, or each pod where containers are not known.
func TestHoldersText(t *testing.T) {
	in := func(pod, container string) Holder {
		return Holder{Namespace: "team", Claim: "model", Pod: pod, Container: container}
	}
	for want, holders := range map[string][]Holder{
		"":                               nil,
		"claim team/model":               {in("", "")},
		"claim team/model (a/x, a/y)":    {in("a", "x"), in("a", "y")},
		"claim team/model (a, b)":        {in("a", ""), in("a", ""), in("b", "")},
		"team/c/x, claim team/model (a)": {{Namespace: "team", Pod: "c", Container: "x"}, in("a", "")},
	} {
		if got := HoldersText(holders); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
