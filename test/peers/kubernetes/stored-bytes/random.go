package main

import (
	"fmt"
	"math/rand"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

// randomObjects fills every field of an object now and then: with text from all of Unicode, with numbers of every size.
type randomObjects struct {
	filler *randfill.Filler
}

func newRandomObjects(seed int64) randomObjects {
	return randomObjects{
		filler: randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 4).Funcs(
			// The kind is in the envelope.
			func(*metav1.TypeMeta, randfill.Continue) {},
			func(t *metav1.Time, c randfill.Continue) {
				if c.Bool() {
					t.Time = time.Unix(c.Int63n(253402300799+62135596800)-62135596800, 0)
				}
			},
			func(fields *metav1.FieldsV1, c randfill.Continue) {
				fields.Raw = []byte(`{"f:` + c.String(0) + `":{}}`)
			},
			func(entries *map[string]string, c randfill.Continue) {
				*entries = randomEntries(c.Rand, func() string { return c.String(0) })
			},
		),
	}
}

func (r randomObjects) next(kind string) (runtime.Object, error) {
	switch kind {
	case "Endpoints":
		object := &corev1.Endpoints{}
		r.filler.Fill(object)
		return object, nil
	case "RangeAllocation":
		object := &corev1.RangeAllocation{}
		r.filler.Fill(object)
		return object, nil
	default:
		return nil, fmt.Errorf("no kind %q", kind)
	}
}

// randomEntries has keys that languages tell apart from others: numbers, and names that every object has.
func randomEntries(random *rand.Rand, text func() string) map[string]string {
	keys := []string{"", "0", "9", "10", "010", "-1", "__proto__", "constructor", "a/b", "\uffee", "\U0001f600", text()}
	entries := map[string]string{}
	for range random.Intn(len(keys)) {
		entries[keys[random.Intn(len(keys))]] = text()
	}
	return entries
}
