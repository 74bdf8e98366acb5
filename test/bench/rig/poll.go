package rig

import "time"

// Poll asks now and then, every so long, until the answer is yes; it is false if it was not
// within the limit. An error ends it.
func Poll(limit, every time.Duration, ask func() (bool, error)) (bool, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.After(limit); ; {
		if yes, err := ask(); yes || err != nil {
			return yes, err
		}
		select {
		case <-tick.C:
		case <-end:
			return false, nil
		}
	}
}
