// Package xid maps errors of NVIDIA's driver (XIDs) to the health of a
// GPU.
//
// table.yaml has the meaning of each code, one row a code, with its source. Settings
// and the environment variables of NVIDIA's device plugin overrule rows; README.md,
// beside this file, is the reference for operators. [Table.Judge] combines a row with
// the recovery action that the driver requires.
//
// The package reads no hardware and has no state: its callers and the core decide how
// long a fault lasts and what clears it.
package xid
