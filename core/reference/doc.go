// Package reference finds the names in a profile that no backend has: device classes, attributes and capacities in
// selectors, names of resources and features, parameters. Backends declare them; a name that is misspelt selects
// nothing, and nothing else would report it.
//
// It does not check whether devices of this node have an attribute: many exist on some machines only.
package reference
