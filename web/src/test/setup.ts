import { cleanup, configure } from '@testing-library/react'
import { afterEach } from 'vitest'

// Pages are loaded when they are first opened, which takes as long as the machine is busy.
configure({ asyncUtilTimeout: 20_000 })

afterEach(cleanup)
