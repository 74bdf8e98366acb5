package text

import "testing"

func TestFirst(t *testing.T) {
	names := []string{"a", "b", "c"}
	for most, want := range map[int]string{2: "a, b and 1 more", 3: "a, b, c", 4: "a, b, c"} {
		if got := First(names, most); got != want {
			t.Errorf("at most %d: %q, want %q", most, got, want)
		}
	}
}
