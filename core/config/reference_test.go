package config

import (
	"fmt"
	"testing"
)

// Verifies that the attributes and capacities that a selector names are found, in all ways in which CEL names them.
func TestReferences(t *testing.T) {
	for selector, want := range map[string]string{
		`device.attributes["a"].x == "1"`:                                                    `[device.attributes["a"].x device.attributes["a"]]`,
		`device.attributes["a"]["x"] == "1"`:                                                 `[device.attributes["a"].x device.attributes["a"]]`,
		`device.attributes["a"].?x.orValue("") == "1"`:                                       `[device.attributes["a"].x device.attributes["a"]]`,
		`device.attributes["a"][?"x"].orValue("") == "1"`:                                    `[device.attributes["a"].x device.attributes["a"]]`,
		`has(device.attributes["a"].x) || "y" in device.attributes["a"]`:                     `[device.attributes["a"].x device.attributes["a"] device.attributes["a"].y device.attributes["a"]]`,
		`cel.bind(b, device.attributes["a"], b.x == "1")`:                                    `[device.attributes["a"] device.attributes["a"].x]`,
		`device.capacity["a"].x.compareTo(quantity("1")) > 0`:                                `[device.capacity["a"].x device.capacity["a"]]`,
		`["x"].exists(n, device.attributes["a"][n] == "1")`:                                  `[device.attributes["a"]]`,
		`device.driver == "a" && device.attributes["d.e"].x.startsWith("device.attributes")`: `[device.attributes["d.e"].x device.attributes["d.e"]]`,
	} {
		compiled, err := CompileSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := References(compiled); err != nil || fmt.Sprint(all) != want {
			t.Errorf("%s: %v, %v, want %s", selector, all, err, want)
		}
	}
}
