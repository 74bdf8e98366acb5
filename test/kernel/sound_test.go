package kernel

import (
	"regexp"
	"slices"
	"testing"
)

// TestSoundCardsReloadedInAnotherOrder verifies that two sound cards keep their IDs when their drivers are loaded the
// other way round, so that the kernel counts them otherwise, and that a container gets the nodes of its card. It fails
// if the ID has the number of a card.
func TestSoundCardsReloadedInAnotherOrder(t *testing.T) {
	configure(t, standard)
	untilCount(t, "example.com/sound", 0)
	t.Cleanup(func() { m.Try(t, "modprobe --remove --all snd-dummy snd-aloop") })
	m.Run(t, "modprobe snd-dummy && modprobe snd-aloop")
	before := untilCount(t, "example.com/sound", 2)
	cards := cardsByID(t)
	m.Run(t, "modprobe --remove --all snd-dummy snd-aloop && modprobe snd-aloop && modprobe snd-dummy")
	untilList(t, "example.com/sound", before...)
	untilSame(t, cards, func() map[string]string { return cardsByID(t) })
}

// cardsByID starts two containers, each with one card, and returns the card's name in the kernel by ID.
func cardsByID(t *testing.T) map[string]string {
	t.Helper()
	byID := map[string]string{}
	for _, pod := range []string{"first", "second"} {
		got := hold(t, pod, "example.com/sound")
		has := nodes(t, pod)
		control := slices.IndexFunc(has, regexp.MustCompile(`^/dev/snd/controlC\d+$`).MatchString)
		if control < 0 || opens(t, pod, has[control]) != "" {
			t.Fatalf("%s has %q, and no control node that opens", pod, has)
		}
		number := regexp.MustCompile(`\d+$`).FindString(has[control])
		byID[got.Devices[0]] = m.Run(t, "cat /proc/asound/card%s/id", number)
	}
	for _, pod := range []string{"first", "second"} {
		release(t, pod)
	}
	return byID
}
