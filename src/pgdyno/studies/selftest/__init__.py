"""Cases whose answer is known beforehand: does the method find what is there?"""
