package rig

import "fmt"

// FlagsOnly is an error if the command line of a benchmark has more than flags, such as
// one whose dash was forgotten: what it runs instead takes minutes.
func FlagsOnly(rest []string) error {
	if len(rest) == 0 {
		return nil
	}
	return fmt.Errorf("give flags only, not %q; -help says which there are", rest)
}
