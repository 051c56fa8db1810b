export type Colour = `#${string}`

/** The colours of the page, for one colour scheme. */
export interface Palette {
  readonly page: Colour
  readonly surface: Colour
  /** Text, and what is only said aside. */
  readonly text: Colour
  readonly aside: Colour
  readonly link: Colour
  readonly held: Colour
  readonly broken: Colour
  readonly caution: Colour
  /** Lines that part things. */
  readonly line: Colour
  /** Of a chart: a process, what is served, listed, leased, amiss, and dead although listed. */
  readonly life: Colour
  readonly served: Colour
  readonly listed: Colour
  readonly lease: Colour
  readonly amiss: Colour
  readonly dead: Colour
  readonly base: Colour
}

/** Text has a contrast of 4.5 to 1 with what it stands on, and what a chart shows 3 to 1: a test computes it. */
export const palettes: { readonly light: Palette; readonly dark: Palette } = {
  light: {
    page: '#f6f7f8',
    surface: '#ffffff',
    text: '#1b2127',
    aside: '#56616c',
    link: '#0a58a8',
    held: '#17703f',
    broken: '#b1221b',
    caution: '#7a5200',
    line: '#d8dde2',
    life: '#75818c',
    served: '#2f8a5b',
    listed: '#2a6dbb',
    lease: '#7c57b3',
    amiss: '#ad6c00',
    dead: '#c92a22',
    base: '#b3bcc5',
  },
  dark: {
    page: '#121518',
    surface: '#1a1e23',
    text: '#e4e8ec',
    aside: '#9ba7b3',
    link: '#7db8f5',
    held: '#62c68f',
    broken: '#ff8f86',
    caution: '#e3b153',
    line: '#323a42',
    life: '#7f8b97',
    served: '#4fae7e',
    listed: '#5b9fe6',
    lease: '#a888dc',
    amiss: '#d0963a',
    dead: '#f0655b',
    base: '#505b66',
  },
}

/** What text is written in, and what may be drawn in charts. */
export const textColours = ['text', 'aside', 'link', 'held', 'broken', 'caution'] as const
export const chartColours = ['life', 'served', 'listed', 'lease', 'amiss', 'dead'] as const

export function customProperties(palette: Palette): string {
  return Object.entries(palette)
    .map(([name, colour]) => `--${name}:${colour}`)
    .join(';')
}
