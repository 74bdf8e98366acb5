package rig

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Cat is how long the program cat takes to read the files, into /dev/null, less what it
// takes to read none.
func Cat(files []string) (time.Duration, error) {
	var took [2]time.Duration
	for i, args := range [][]string{{os.DevNull}, files} {
		command := exec.Command("cat", args...) //nolint:noctx // it ends with its input
		began := time.Now()
		if err := command.Run(); err != nil {
			return 0, fmt.Errorf("cat: %w", err)
		}
		took[i] = time.Since(began)
	}
	return max(took[1]-took[0], 0), nil
}
