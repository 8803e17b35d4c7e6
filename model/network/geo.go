// SPDX-License-Identifier: Apache-2.0

package network

import "math"

const (
	earthMetres    = 6_371_008.8 // mean radius of the Earth (IUGG)
	metresASecond  = 200_000_000 // of light in fibre: about two thirds of that in vacuum
	delayMin       = 10e-6       // seconds: cables of a building have equipment too
	ticksPerSecond = 1 << 50
	tick           = 1.0 / ticksPerSecond
)

// Every delay of a cable, every time to send a packet and every planned added latency
// is a whole number of ticks of 2^-50 s, about a femtosecond. Sums of such numbers are
// exact up to 8 s, in whatever order they are added. So two ways of equal length are
// equal to the last bit, routes of different nodes agree, and the time of a packet that
// never waits is its path's, exactly.

// inTicks rounds a duration to a whole number of ticks. Beyond 8 s a float64 has
// nothing left to round.
func inTicks(seconds float64) float64 { return math.Round(seconds*ticksPerSecond) / ticksPerSecond }

// propagation is the delay over a distance: rounded up, so that it is never less than
// it should be.
func propagation(metres float64) float64 {
	return math.Ceil(max(metres/metresASecond, delayMin)*ticksPerSecond) / ticksPerSecond
}

// distance is the great-circle distance of two places, by the haversine formula, which
// is exact for near places too.
func distance(a, b *Place) float64 {
	lat1, lat2 := radians(a.Latitude), radians(b.Latitude)
	s1, s2 := math.Sin((lat2-lat1)/2), math.Sin(radians(b.Longitude-a.Longitude)/2)
	h := s1*s1 + math.Cos(lat1)*math.Cos(lat2)*s2*s2
	return 2 * earthMetres * math.Asin(math.Sqrt(min(1, h)))
}

// centre is the mean of places: the direction of the sum of their unit vectors, so
// that it holds across the date line too. Of places that cancel out, the first.
func centre(places []*Place) (latitude, longitude float64) {
	var x, y, z float64
	for _, p := range places {
		lat, lon := radians(p.Latitude), radians(p.Longitude)
		x += math.Cos(lat) * math.Cos(lon)
		y += math.Cos(lat) * math.Sin(lon)
		z += math.Sin(lat)
	}
	flat := math.Hypot(x, y)
	if math.Hypot(flat, z) < 1e-9*float64(len(places)) {
		return places[0].Latitude, places[0].Longitude
	}
	return degrees(math.Atan2(z, flat)), degrees(math.Atan2(y, x))
}

func radians(degrees float64) float64 { return degrees * math.Pi / 180 }
func degrees(radians float64) float64 { return radians * 180 / math.Pi }
