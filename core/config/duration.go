package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// String returns the duration without zero units: "5m", not "5m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes "10s", in YAML as in JSON.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads "10s" or "1m30s"; a number without a unit is an error.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("must be a duration with a unit, such as 10s or 1m30s, is %s%s", show(string(text)), durationOf(string(text)))
	}
	*d = Duration(parsed)
	return nil
}

// durationOf returns how to write a duration without a unit, with its name, or in days.
func durationOf(text string) string {
	m := otherDuration.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	switch number, _ := strconv.Atoi(m[1]); {
	case m[2] == "":
		return "; write " + m[1] + "s for seconds"
	case m[2] == "d" || strings.HasPrefix(m[2], "day"):
		return fmt.Sprintf("; write %dh", 24*number)
	default:
		return "; write " + m[1] + m[2][:1]
	}
}

var otherDuration = regexp.MustCompile(`^([0-9]{1,6}) ?(|d|days?|sec|secs|seconds?|min|mins|minutes?|hours?)$`)
