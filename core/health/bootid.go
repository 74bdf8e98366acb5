package health

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// BootID is the kernel's random ID of this boot, from sys/kernel/random/boot_id
// below procfs (see random(4)).
func BootID(procfs string) (string, error) {
	name := filepath.Join(procfs, "sys/kernel/random/boot_id")
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("read the boot ID: %w; is procfs mounted at %s?", err, procfs)
	}
	id := strings.TrimSpace(string(data))
	if id == "" || len(id) > 64 || strings.Trim(id, "0123456789abcdef-") != "" {
		return "", fmt.Errorf("read the boot ID: %s does not hold a UUID", name)
	}
	return id, nil
}
