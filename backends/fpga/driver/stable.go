package driver

import "slices"

// tries is how often a machine that changes while it is read is read in all.
const tries = 4

// ReadStable lists the devices of a machine, reads them, and lists them again. If the lists
// differ, or the second cannot be had, the machine changed meanwhile: all is read again, a few
// times at most. The results are those of the last call of read; unstable: the machine changed
// during that, too. An error is one of the list before it. between is called before and after
// read: a test changes the machine there.
func ReadStable[D any](list func() ([]D, error), read func([]D), equal func(a, b D) bool, between func()) (unstable bool, err error) {
	for try := 1; ; try++ {
		before, err := list()
		if err != nil {
			return false, err
		}
		between()
		read(before)
		between()
		after, err := list()
		unstable = err != nil || !slices.EqualFunc(before, after, equal)
		if !unstable || try == tries {
			return unstable, nil
		}
	}
}
